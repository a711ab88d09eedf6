// What a service process has exchanged with each other node, in memory that its keeper has made and reads while the job
// runs, and that outlives it: the one that takes its place goes on counting. By the numbers of the nodes.
//
// Thread rule: one process writes, with one thread; whoever reads sees some count of lately.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace outrigger {

// All that is handed to the network and comes from it, messages of ours included, without what the network adds.
struct LinkCounts {
  std::atomic<std::uint64_t> sent_bytes;
  std::atomic<std::uint64_t> received_bytes;

  void sent(std::uint64_t bytes) { add(sent_bytes, bytes); }
  void received(std::uint64_t bytes) { add(received_bytes, bytes); }

 private:
  static void add(std::atomic<std::uint64_t>& count, std::uint64_t bytes) {
    count.store(count.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
  }
};
static_assert(sizeof(LinkCounts) == 16);

// Further nodes are counted together, in the last place.
inline constexpr std::size_t kLinkPlaces = 2048;
[[nodiscard]] constexpr std::size_t link_place(std::uint32_t node) {
  return std::min<std::size_t>(node, kLinkPlaces - 1);
}

}  // namespace outrigger
