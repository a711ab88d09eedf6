// Requests in the form that the service process reads (protocol/shared/segment.hpp).
#pragma once

#include <cstdint>
#include <optional>

#include "client/operations/operation_request.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::client {

// True if there are no extents or one per member; in neighbor collectives, one per neighbor.
[[nodiscard]] bool fits_group(const OperationRequest& request);

// All but the two sides' memory and the arguments.
void describe(const OperationRequest& request, SlotRequestBody& body);

// A request about a group and its entry for a dispatch plan.
[[nodiscard]] SlotRequestBody describe(const Group& group, SlotRequest request);

// Where the blocks of a layout for so many members are. True: they have bytes, and `place` is still to be found.
[[nodiscard]] inline bool find_extent(const BufferLayout& layout, std::uint32_t members, SideMemory& side) {
  side.found_in = 0;
  const std::optional<OffsetRange> range = layout.range(members);
  side.reached = !range           ? SideMemory::Reached::never
                 : range->empty() ? SideMemory::Reached::without_bytes
                                  : SideMemory::Reached::with_bytes;
  if (side.reached != SideMemory::Reached::with_bytes) return false;
  side.begin = reinterpret_cast<std::uintptr_t>(layout.base) + static_cast<std::uint64_t>(range->low);
  side.bytes = range->bytes();
  return true;
}

// Fills the layout but for extents.
void describe_side(const BufferLayout& layout, const SideMemory& memory, SlotLayout& filled);

}  // namespace outrigger::client
