// Requests in the form that the service process reads (protocol/shared/segment.hpp).
#pragma once

#include <cstdint>

#include "client/memory/range_allocator.hpp"
#include "client/memory/regions.hpp"
#include "client/operations/operation_request.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::client {

// True if there are no extents or one per member; in neighbor collectives, one per neighbor.
[[nodiscard]] bool fits_group(const OperationRequest& request);

// All but the two sides' memory and the arguments.
[[nodiscard]] SlotRequestBody describe(const OperationRequest& request);

// A request about a group and its entry for a dispatch plan.
[[nodiscard]] SlotRequestBody describe(const Group& group, SlotRequest request);

// The memory of one side's blocks, from the first byte to behind the last.
struct SideMemory {
  enum class Reached { never, without_bytes, with_bytes };
  Reached reached = Reached::never;
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  bool is_private = false;
};

// Under the lock. Fills the layout but for extents, and where it lies in the shared heap. A registration that it names
// has one user more afterwards.
[[nodiscard]] SideMemory describe_side(const BufferLayout& layout, std::uint32_t group_size, Regions& regions,
                                       SlotLayout& filled, MemoryRange& in_heap);

}  // namespace outrigger::client
