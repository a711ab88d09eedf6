// An operation from post() to the end.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "client/memory/range_allocator.hpp"
#include "client/operations/client_group.hpp"
#include "client/operations/operation_request.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::client {

// The arguments that post() copies to argument memory beside the slot. The spans point to the caller's memory during
// post(), and to the vectors while the operation waits.
struct SideArguments {
  std::span<const PairExtent> extents;
  std::span<const std::uint32_t> neighbors;  // of the extents; empty: the extents are by member
};
struct OperationArguments {
  SideArguments send;
  SideArguments receive;

  [[nodiscard]] bool empty() const { return send.extents.empty() && receive.extents.empty(); }
};

struct DeferredRequest {
  struct Side {
    std::vector<PairExtent> extents;
    std::vector<std::uint32_t> neighbors;
  };
  SlotRequestBody body;
  Side send;
  Side receive;

  [[nodiscard]] OperationArguments arguments() const {
    return {{send.extents, send.neighbors}, {receive.extents, receive.neighbors}};
  }
};

// The service process has done with it, and its result holds.
[[nodiscard]] inline bool is_done(const OperationSlot& place) {
  return place.state.load(std::memory_order_acquire) == static_cast<std::uint32_t>(SlotState::done);
}

// `result` holds, though of a kept operation not all others may have read.
[[nodiscard]] inline bool is_filled(const OperationSlot& place) {
  const std::uint32_t state = place.state.load(std::memory_order_acquire);
  return state == static_cast<std::uint32_t>(SlotState::filled) || state == static_cast<std::uint32_t>(SlotState::done);
}

class PendingOperation {
 public:
  enum class Phase : std::uint32_t {
    waiting,  // no slot or no argument memory yet; `deferred` holds the request
    posted,   // in `place`
    filled,   // kept: `result` holds, but others may still read; to the caller it is done
    done,     // `result` holds; slot and arguments are given back
  };

  // A new one, or one that has been done and dropped.
  void begin(std::shared_ptr<const Group> on) {
    group = std::move(on);
    phase.store(Phase::waiting, std::memory_order_relaxed);
    overflowed = false;
    others_have_posted = false;
    staging = {};
    in_heap = {};
    deferred.reset();
  }

  std::shared_ptr<const Group> group;
  std::atomic<Phase> phase{Phase::waiting};  // changes under the endpoint's lock, after the members that belong to it
  OperationSlot* place = nullptr;            // once posted: a slot's, or an overflow record's
  bool overflowed = false;
  bool others_have_posted = false;  // when this rank did, and service processes need no core of ranks
  std::uint32_t number = 0;         // of the slot, or of the record
  MemoryRange arguments;
  std::array<void*, 2> staging{};      // given back with the operation
  std::array<MemoryRange, 2> in_heap;  // sent and received; no bytes: not in the shared heap
  std::unique_ptr<DeferredRequest> deferred;
  OperationResult result;
};

}  // namespace outrigger::client
