#include "fabric/host/slots.hpp"

#include <atomic>
#include <utility>

#include "protocol/segment.hpp"

namespace outrigger::fabric {

void Slots::add_rank(WorldRank rank) {
  if (rank.value() >= slots_.size()) slots_.resize(std::size_t{rank.value()} + 1);
  slots_[rank.value()].assign(kSlotCount, OpenSlot{});
}

void Slots::drop_rank(WorldRank rank) {
  if (rank.value() < slots_.size()) slots_[rank.value()].clear();
}

Slots::OpenSlot* Slots::find(WorldRank rank, SlotIndex slot) {
  if (rank.value() >= slots_.size() || slot.value() >= slots_[rank.value()].size()) return nullptr;
  return &slots_[rank.value()][slot.value()];
}

bool Slots::open(WorldRank rank, SlotIndex slot) {
  OpenSlot* found = find(rank, slot);
  if (found == nullptr || found->open) return false;
  *found = OpenSlot{true, {}, 0};
  return true;
}

void Slots::set_marks(WorldRank rank, SlotIndex slot, LocalRef marks, std::uint32_t group_size) {
  OpenSlot* found = find(rank, slot);
  if (found == nullptr) return;
  found->marks = marks;
  found->group_size = group_size;
}

void Slots::mark_delivered(WorldRank destination, SlotIndex slot, GroupRank source) {
  const OpenSlot* found = find(destination, slot);
  if (found == nullptr || !found->open || source.value() >= found->group_size) return;
  const RankMemory& memory = *ranks_.find(destination);
  std::byte* mark = memory.mapped(RegionId{found->marks.region}, found->marks.address + source.value(), 1);
  if (mark == nullptr) return;  // the rank has dropped the region under its own operation
  std::atomic_ref<std::uint8_t>(*reinterpret_cast<std::uint8_t*>(mark)).store(1, std::memory_order_release);
}

void Slots::complete(WorldRank rank, SlotIndex slot, const CompletionRecord& record) {
  OpenSlot* found = find(rank, slot);
  if (found == nullptr || !found->open) return;
  found->open = false;
  const SegmentView segment = ranks_.find(rank)->segment();
  OperationSlot& shared = segment.slot(slot);
  shared.result.status = static_cast<std::uint32_t>(record.status);
  shared.result.late_announcements = record.late_announcements;
  shared.result.bytes_by_reach = record.bytes_by_reach;
  shared.state.store(static_cast<std::uint32_t>(SlotState::done), std::memory_order_release);
  wake_sleepers(segment.header());
}

std::vector<Slots::Deferred> Slots::take_deferred() {
  return std::exchange(deferred_, {});
}

}  // namespace outrigger::fabric
