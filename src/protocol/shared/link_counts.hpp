// Traffic of a service process with each other node. The keeper owns the memory and reads it while the job runs. It
// outlives the service process, and a replacement continues the counts. Indexed by node number.
//
// Thread rule: one thread of one process writes; readers see a recent value.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace outrigger {

// All bytes to and from the network, including Outrigger's messages, without the network's own overhead.
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

// All further nodes share the last place.
inline constexpr std::size_t kLinkPlaces = 2048;
[[nodiscard]] constexpr std::size_t link_place(std::uint32_t node) {
  return std::min<std::size_t>(node, kLinkPlaces - 1);
}

}  // namespace outrigger
