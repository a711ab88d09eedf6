// Reduces ranges of ranks' memory in bounded steps: mapped memory in place, private memory by cross-memory copies
// through buffers of this process.
//
// Thread rule: one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "fabric/block_mover.hpp"
#include "fabric/node_memory.hpp"
#include "protocol/memory.hpp"
#include "protocol/reduction.hpp"
#include "reduce/reduce.hpp"

namespace outrigger::fabric {

// See BlockMover::reduce().
struct ReduceRanges {
  Reduction reduction;
  std::vector<MemoryRef> operands;
  MemoryRef into;
};

class MemoryReducer {
 public:
  // Bytes of the result per step: a usual second-level cache holds them and chunks of two operands.
  static constexpr std::uint64_t kChunkBytes = 64U << 10;

  // `memory` must not be remote.
  explicit MemoryReducer(NodeMemory& memory) : memory_(memory) {}

  // Checks that all ranges have this many bytes. Touches no memory.
  [[nodiscard]] MoveStatus check(const ReduceRanges& ranges, std::uint64_t bytes) {
    for (const MemoryRef& memory : ranges.operands) {
      const MoveStatus status = memory_.view(memory, bytes).status;
      if (status != MoveStatus::ok) return status;
    }
    return memory_.view(ranges.into, bytes).status;
  }

  // Reduces these bytes (whole elements) from `offset` on. Each operand is read once and the result written once, so
  // small steps stay in the cache.
  [[nodiscard]] MoveOutcome reduce(const ReduceRanges& ranges, std::uint64_t offset, std::uint64_t bytes) {
    const NodeMemory::View into = memory_.view(ranges.into.at(offset), bytes);
    if (into.status != MoveStatus::ok) return MoveOutcome{into.status, Reach::mapped};
    // The result for private memory is made in a local buffer.
    std::byte* result = into.bytes == nullptr ? room_for(into_, bytes) : into.bytes;
    MoveOutcome outcome = reduce_to(ranges, offset, std::span(result, bytes));
    if (into.bytes != nullptr) return outcome;
    outcome.reach = Reach::cma;
    if (outcome.status == MoveStatus::ok) {
      outcome.status = memory_.write(ranges.into.at(offset), std::span<const std::byte>(result, bytes));
    }
    return outcome;
  }

  // Reduces all bytes in chunks. On failure the result may be partly written.
  [[nodiscard]] MoveStatus reduce_all(const ReduceRanges& ranges, std::uint64_t bytes) {
    const std::uint64_t most = kChunkBytes / ranges.reduction.element_bytes() * ranges.reduction.element_bytes();
    MoveStatus status = MoveStatus::ok;
    for (std::uint64_t done = 0; done < bytes && status == MoveStatus::ok; done += most) {
      status = reduce(ranges, done, std::min(bytes - done, most)).status;
    }
    return status;
  }

  // Like reduce(), into memory of this process; ignores `ranges.into`.
  [[nodiscard]] MoveOutcome reduce_to(const ReduceRanges& ranges, std::uint64_t offset, std::span<std::byte> result) {
    const Range first(memory_, ranges.operands.front().at(offset), result.size(), first_);
    MoveOutcome outcome{first.status, first.is_copy ? Reach::cma : Reach::mapped};
    const std::byte* so_far = first.bytes;
    for (std::size_t i = 1; i < ranges.operands.size() && outcome.status == MoveStatus::ok; ++i) {
      const Range next(memory_, ranges.operands[i].at(offset), result.size(), next_);
      outcome.status = next.status;
      if (next.status != MoveStatus::ok) break;
      if (next.is_copy) outcome.reach = Reach::cma;
      const std::size_t elements = result.size() / ranges.reduction.element_bytes();
      reduce::kernel_of(ranges.reduction)(so_far, next.bytes, result.data(), elements);
      so_far = result.data();
    }
    return outcome;
  }

 private:
  static std::byte* room_for(std::vector<std::byte>& buffer, std::uint64_t bytes) {
    if (buffer.size() < bytes) buffer.resize(bytes);
    return buffer.data();
  }

  // An operand: in place, or copied to `buffer`.
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
  std::vector<std::byte> first_;
  std::vector<std::byte> next_;
  std::vector<std::byte> into_;
};

}  // namespace outrigger::fabric
