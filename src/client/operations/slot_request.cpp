#include "client/operations/slot_request.hpp"

#include <algorithm>
#include <functional>
#include <optional>

#include "client/operations/client_group.hpp"

namespace outrigger::client {
namespace {

bool fits_neighbors(const BufferLayout& layout, std::span<const std::uint32_t> neighbors, std::uint32_t group_size) {
  const bool in_order = std::ranges::adjacent_find(neighbors, std::greater_equal<>()) == neighbors.end();
  return layout.extents.size() == neighbors.size() && in_order && (neighbors.empty() || neighbors.back() < group_size);
}

}  // namespace

bool fits_group(const OperationRequest& request) {
  const std::uint32_t size = request.group->size();
  if (is_of_neighbors(request.collective)) {
    return fits_neighbors(request.send, request.send_neighbors, size) &&
           fits_neighbors(request.receive, request.receive_neighbors, size);
  }
  const auto fits = [size](const BufferLayout& layout) {
    return layout.extents.empty() || layout.extents.size() == size;
  };
  return fits(request.send) && fits(request.receive) && request.send_neighbors.empty() &&
         request.receive_neighbors.empty();
}

void describe(const OperationRequest& request, SlotRequestBody& body) {
  const Group& group = *request.group;
  body = {};
  body.request = static_cast<std::uint16_t>(SlotRequest::operation);
  body.collective = static_cast<std::uint16_t>(request.collective);
  body.algorithm = static_cast<std::uint16_t>(request.algorithm);
  body.flags = (request.own_block_done ? kSlotOwnBlockDone : 0) |
               (is_rooted(request.collective) ? kSlotReceiveFromRoot : 0) | (request.kept ? kSlotKept : 0) |
               (request.timed ? kSlotTimed : 0) | (request.by_plan ? kSlotByPlan : 0);
  body.root = request.root.value_or(0);
  if (request.reduction) {
    body.reduce_operation = static_cast<std::uint16_t>(request.reduction->operation);
    body.element_type = static_cast<std::uint16_t>(request.reduction->type);
  }
  body.native_calls = request.native_calls;
  body.group_high = group.id().high;
  body.group_low = group.id().low;
  body.sequence = request.sequence;
  body.digest = operation_digest(request.collective, request.algorithm, body.root, group.size(), request.configuration);
  body.plan = group.plan().value;
  body.group_size = group.size();
  body.group_rank = group.me().value();
  body.members = LocalRef{group.members().region.value(), 0, group.members().address};
}

SlotRequestBody describe(const Group& group, SlotRequest request) {
  SlotRequestBody body;
  body.request = static_cast<std::uint16_t>(request);
  body.plan = group.plan().value;
  body.group_high = group.id().high;
  body.group_low = group.id().low;
  return body;
}

void describe_side(const BufferLayout& layout, const SideMemory& memory, SlotLayout& filled) {
  if (memory.reached != SideMemory::Reached::with_bytes) return;
  filled.base = LocalRef{memory.place.region.value(), 0, reinterpret_cast<std::uintptr_t>(layout.base)};
  if (!layout.extents.empty()) return;
  filled.stride_bytes = layout.stride_bytes;
  filled.block_bytes = layout.block_bytes;
}

}  // namespace outrigger::client
