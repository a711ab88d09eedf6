// What a service process shows of itself to its keeper, in pages that the keeper has made and that outlive it: that it
// gets on, what it has taken last, and, behind that, what it has exchanged with each other node and, on a DPU, with the
// memory of its host. Where it says nothing its keeper looks at what the kernel says of it. On a DPU it is also shown
// there how long it may work.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "protocol/collective.hpp"
#include "protocol/ids.hpp"
#include "protocol/shared/link_counts.hpp"

namespace outrigger {

struct alignas(64) ServicePulse {
  std::atomic<std::uint64_t> turns;  // of its loop; while it sleeps there are none, and nobody wakes it for one
  // The operation that it has taken last.
  std::atomic<std::uint64_t> operations;  // taken so far, by all that have shown themselves here
  std::atomic<std::uint64_t> group_high;
  std::atomic<std::uint64_t> group_low;
  std::atomic<std::uint64_t> sequence;
  std::atomic<std::uint32_t> collective;  // Collective
  std::atomic<std::uint32_t> asleep;      // not 0: it waits for others to wake it
  // Written by `outriggerd dpu`: until when (steady clock) nobody takes this one's place on the host, as its keeper has
  // been heard of so lately; 0: no limit. Then it touches no rank's memory before it may again.
  std::atomic<std::int64_t> may_work_until_ns;

  void show(const OperationId& id, Collective taken) {
    group_high.store(id.group.high, std::memory_order_relaxed);
    group_low.store(id.group.low, std::memory_order_relaxed);
    sequence.store(id.sequence, std::memory_order_relaxed);
    collective.store(static_cast<std::uint32_t>(taken), std::memory_order_relaxed);
    operations.store(operations.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  // Where there are any operations.
  [[nodiscard]] OperationId last_taken() const {
    return {GroupId{group_high.load(std::memory_order_relaxed), group_low.load(std::memory_order_relaxed)},
            sequence.load(std::memory_order_relaxed)};
  }
};
static_assert(sizeof(ServicePulse) == 64);

struct ServicePages {
  ServicePulse pulse;
  std::array<LinkCounts, kLinkPlaces> links;
  // On a DPU: what it has written to its host's memory (sent), and read there, by itself or by its network's device.
  LinkCounts host_memory;
};
inline constexpr std::uint64_t kServicePagesBytes = (sizeof(ServicePages) + 4095) / 4096 * 4096;

}  // namespace outrigger
