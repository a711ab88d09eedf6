// Reduces ranges of ranks' memory in place, in bounded steps: mapped memory where it is, private memory by cross-memory
// copies through buffers of this process.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "fabric/fabric.hpp"
#include "fabric/node_memory.hpp"
#include "protocol/memory.hpp"
#include "protocol/reduction.hpp"
#include "reduce/reduce.hpp"

namespace outrigger::fabric {

// into = left op right; `into` may be `left`.
struct ReduceRanges {
  Reduction reduction;
  MemoryRef left;
  MemoryRef right;
  MemoryRef into;
};

class MemoryReducer {
 public:
  // Not is_remote().
  explicit MemoryReducer(NodeMemory& memory) : memory_(memory) {}

  // Are so many bytes of all three there? Nothing is touched.
  [[nodiscard]] MoveStatus check(const ReduceRanges& ranges, std::uint64_t bytes) {
    for (const MemoryRef& memory : {ranges.left, ranges.right, ranges.into}) {
      const MoveStatus status = memory_.view(memory, bytes).status;
      if (status != MoveStatus::ok) return status;
    }
    return MoveStatus::ok;
  }

  // Those bytes from `offset` on, whole elements.
  [[nodiscard]] MoveOutcome reduce(const ReduceRanges& ranges, std::uint64_t offset, std::uint64_t bytes) {
    Range left(memory_, at(ranges.left, offset), bytes, left_);
    Range right(memory_, at(ranges.right, offset), bytes, right_);
    const NodeMemory::View into = memory_.view(at(ranges.into, offset), bytes);
    MoveOutcome outcome{MoveStatus::ok, Reach::mapped};
    for (const MoveStatus status : {left.status, right.status, into.status}) {
      if (outcome.status == MoveStatus::ok) outcome.status = status;
    }
    if (outcome.status != MoveStatus::ok) return outcome;
    if (left.is_copy || right.is_copy || into.bytes == nullptr) outcome.reach = Reach::cma;
    // Private memory gets its result from what has been read of the left operand, or from a place of its own.
    std::byte* result = into.bytes;
    if (result == nullptr) result = left.is_copy ? left.bytes : room_for(into_, bytes);
    reduce::kernel_of(ranges.reduction)(left.bytes, right.bytes, result, bytes / ranges.reduction.element_bytes());
    if (into.bytes == nullptr) {
      outcome.status = memory_.write(at(ranges.into, offset), std::span<const std::byte>(result, bytes));
    }
    return outcome;
  }

 private:
  static MemoryRef at(MemoryRef memory, std::uint64_t offset) {
    memory.address += offset;
    return memory;
  }
  static std::byte* room_for(std::vector<std::byte>& buffer, std::uint64_t bytes) {
    if (buffer.size() < bytes) buffer.resize(bytes);
    return buffer.data();
  }

  // An operand, where it is or copied to `buffer`.
  struct Range {
    Range(NodeMemory& memory, const MemoryRef& from, std::uint64_t length, std::vector<std::byte>& buffer) {
      NodeMemory::View view = memory.view(from, length);
      status = view.status;
      bytes = view.bytes;
      hold = std::move(view.hold);
      if (status != MoveStatus::ok || bytes != nullptr) return;
      is_copy = true;
      bytes = room_for(buffer, length);
      status = memory.read(from, std::span(bytes, length));
    }
    MoveStatus status = MoveStatus::ok;
    bool is_copy = false;
    std::byte* bytes = nullptr;
    std::shared_ptr<const void> hold;
  };

  NodeMemory& memory_;
  std::vector<std::byte> left_;
  std::vector<std::byte> right_;
  std::vector<std::byte> into_;
};

}  // namespace outrigger::fabric
