// Heartbeat of a service process for its keeper, in the keeper's memory, which outlives the process. It has the loop
// turns, the last taken operation, and the traffic with other nodes and, on a DPU, with the host's memory. If the
// heartbeat stops, the keeper asks the kernel about the process. On a DPU it also limits how long the process may work.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "protocol/collective.hpp"
#include "protocol/ids.hpp"
#include "protocol/shared/link_counts.hpp"

namespace outrigger {

struct alignas(64) ServiceHeartbeat {
  std::atomic<std::uint64_t> turns;  // turns of its loop; none while it sleeps, and the heartbeat does not wake it
  // The last taken operation.
  std::atomic<std::uint64_t> operations;  // taken so far, including by its predecessors
  std::atomic<std::uint64_t> group_high;
  std::atomic<std::uint64_t> group_low;
  std::atomic<std::uint64_t> sequence;
  std::atomic<std::uint32_t> collective;  // Collective
  std::atomic<std::uint32_t> asleep;      // not 0: it waits to be woken
  // Written by `outriggerd dpu`: time (steady clock) until which the host does not replace this process, because its
  // keeper answered recently; 0: no limit. After that time the process must not touch ranks' memory.
  std::atomic<std::int64_t> may_work_until_ns;

  void show(const OperationId& id, Collective taken) {
    group_high.store(id.group.high, std::memory_order_relaxed);
    group_low.store(id.group.low, std::memory_order_relaxed);
    sequence.store(id.sequence, std::memory_order_relaxed);
    collective.store(static_cast<std::uint32_t>(taken), std::memory_order_relaxed);
    operations.store(operations.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  // Only if there are operations.
  [[nodiscard]] OperationId last_taken() const {
    return {GroupId{group_high.load(std::memory_order_relaxed), group_low.load(std::memory_order_relaxed)},
            sequence.load(std::memory_order_relaxed)};
  }
};
static_assert(sizeof(ServiceHeartbeat) == 64);

struct ServicePages {
  ServiceHeartbeat heartbeat;
  std::array<LinkCounts, kLinkPlaces> links;
  // On a DPU: bytes written to the host's memory (sent) and read from it, by the processor or the network card.
  LinkCounts host_memory;
};
inline constexpr std::uint64_t kServicePagesBytes = (sizeof(ServicePages) + 4095) / 4096 * 4096;

}  // namespace outrigger
