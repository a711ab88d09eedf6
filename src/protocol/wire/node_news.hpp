// Messages between keepers of a job's nodes over TCP, after both have proven that they know its secret. Fixed width,
// little-endian, every field checked.
//
//   moved   a replacement has the place of service process `sp` of my node, and this address               -> taken
//   taken   the answer, with the same `sp` and `epoch`
//   ask     asks if the node of `sp` is alive                                                          -> here
//   here    the answer, with the same `sp` and its present epoch; 0: a replacement is about to start
//   counts  the job has ended: the counters of my node's ranks; `sp` is the node's first service process
//                                                                                                      -> counted
//   counted the answer, with the same `sp`
//
// Plain values; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "protocol/ids.hpp"

namespace outrigger {

enum class NodeNewsKind : std::uint32_t { moved = 1, taken = 2, ask = 3, here = 4, counts = 5, counted = 6 };

struct NodeNews {
  NodeNewsKind kind = NodeNewsKind::ask;
  std::uint32_t to_node = 0;  // index in the job map; a keeper closes connections that are meant for others
  SpId sp;
  Epoch epoch;                   // of moved and taken: from 2; of here: any; else 0
  std::vector<std::byte> bytes;  // of moved: its address on the wire; of counts: the counters
  bool operator==(const NodeNews&) const = default;
};

inline constexpr std::size_t kNodeNewsHeaderBytes = 24;
// For one node's counters.
inline constexpr std::size_t kMaxCountsBytes = 16U << 20;

void encode_node_news(const NodeNews& news, std::vector<std::byte>& out);
// The first message of `bytes`, and its length; nullopt: incomplete. Error: bytes that encode_node_news() would not
// have written.
struct ParsedNodeNews {
  NodeNews news;
  std::size_t bytes = 0;
};
[[nodiscard]] Result<std::optional<ParsedNodeNews>> parse_node_news(std::span<const std::byte> bytes);

}  // namespace outrigger
