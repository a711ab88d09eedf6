// What keepers of a job's nodes say to each other over TCP, once both have proven that they know its secret. Fixed
// width, little-endian, every field checked.
//
//   moved   "another service process has the place of `sp` of my node: it is to be reached there"     -> taken
//   taken   the answer, with the same `sp` and `epoch`
//   ask     "is the node of `sp` there?"                                                              -> here
//   here    the answer, with the same `sp` and its epoch now; 0: another one is about to take its place
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

enum class NodeNewsKind : std::uint32_t { moved = 1, taken = 2, ask = 3, here = 4 };

struct NodeNews {
  NodeNewsKind kind = NodeNewsKind::ask;
  std::uint32_t to_node = 0;  // as the job map counts: who has come to another node's keeper is sent away
  SpId sp;
  Epoch epoch;                     // of moved and taken: from 2; of ask: 0
  std::vector<std::byte> address;  // of moved: on the wire
  bool operator==(const NodeNews&) const = default;
};

inline constexpr std::size_t kNodeNewsHeaderBytes = 24;

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
