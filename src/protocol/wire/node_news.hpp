// What keepers of a job's nodes say to each other over TCP, once both have proven that they know its secret. Fixed
// width, little-endian, every field checked.
//
//   moved   "another service process has the place of `sp` of my node: it is to be reached there"     -> taken
//   taken   the answer, with the same `sp` and `epoch`
//   ask     "is the node of `sp` there?"                                                              -> here
//   here    the answer, with the same `sp` and its epoch now; 0: another one is about to take its place
//   counts  "the job has ended: this is what the ranks of my node, whose first service process is `sp`,
//           have counted"                                                                             -> counted
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
  std::uint32_t to_node = 0;  // as the job map counts: who has come to another node's keeper is sent away
  SpId sp;
  Epoch epoch;                   // of moved and taken: from 2; of here: any; else 0
  std::vector<std::byte> bytes;  // of moved: its address on the wire; of counts: these
  bool operator==(const NodeNews&) const = default;
};

inline constexpr std::size_t kNodeNewsHeaderBytes = 24;
// Of one node's counts.
inline constexpr std::size_t kMaxCountsBytes = 16U << 20;

// Appends to `out`.
void encode_node_news(const NodeNews& news, std::vector<std::byte>& out);
// The first of `bytes`, with how many of them it takes; nothing: not all there yet. Error: nothing that
// encode_node_news() would have written begins so.
struct ParsedNodeNews {
  NodeNews news;
  std::size_t bytes = 0;
};
[[nodiscard]] Result<std::optional<ParsedNodeNews>> parse_node_news(std::span<const std::byte> bytes);

}  // namespace outrigger
