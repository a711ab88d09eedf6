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
#include <vector>

#include "protocol/ids.hpp"
#include "protocol/wire/job_map.hpp"
#include "protocol/wire/message_io.hpp"

namespace outrigger {

enum class NodeNewsKind : std::uint32_t { moved = 1, taken = 2, ask = 3, here = 4, counts = 5, counted = 6 };

inline constexpr std::uint32_t kNodeNewsMagic = 0x4E4E524F;  // "ORNN"
// For one node's counters.
inline constexpr std::size_t kMaxCountsBytes = 16U << 20;
[[nodiscard]] constexpr std::size_t most_bytes_of(NodeNewsKind kind) {
  if (kind == NodeNewsKind::moved) return kMaxWireAddressBytes;
  return kind == NodeNewsKind::counts ? kMaxCountsBytes : 0;
}

struct NodeNews {
  NodeNewsKind kind = NodeNewsKind::ask;
  std::uint32_t to_node = 0;  // index in the job map; a keeper closes connections that are meant for others
  SpId sp;
  Epoch epoch;                   // of moved and taken: from 2; of here: any; else 0
  std::vector<std::byte> bytes;  // of moved: its address on the wire; of counts: the counters
  bool operator==(const NodeNews&) const = default;
  static constexpr void fields(auto& io, auto& news) {
    io.constant(kNodeNewsMagic);
    io.code(news.kind, NodeNewsKind::moved, NodeNewsKind::counted);
    io.value(news.to_node, news.sp, news.epoch);
    io.list(news.bytes, most_bytes_of(news.kind));
    const bool replaced = news.kind == NodeNewsKind::moved || news.kind == NodeNewsKind::taken;
    io.require(replaced ? news.epoch > Epoch{1} : news.epoch == Epoch{0} || news.kind == NodeNewsKind::here);
    io.require(news.bytes.empty() == (most_bytes_of(news.kind) == 0));
  }
};

// The largest message.
inline constexpr std::size_t kMostNodeNewsBytes = encoded_bytes(NodeNews()) + kMaxCountsBytes;

}  // namespace outrigger
