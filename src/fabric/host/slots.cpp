#include "fabric/host/slots.hpp"

#include <atomic>
#include <cassert>
#include <utility>

#include "base/clock.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::fabric {

void Slots::write_result(OperationSlot& shared, const CompletionRecord& record, const OpenSlot& open) {
  shared.result.status = static_cast<std::uint32_t>(record.status);
  shared.result.late_announcements = record.late_announcements;
  shared.result.bytes_by_reach = record.bytes_by_reach;
  shared.result.done_ns = open.late_ns ? static_cast<std::uint64_t>(time_on(CLOCK_MONOTONIC).count()) : 0;
  shared.result.late_ns = open.late_ns.value_or(0);
  shared.result.passed_by = record.passed_by.value();
}

void Slots::add_rank(WorldRank rank) {
  if (rank.value() >= of_rank_.size()) of_rank_.resize(std::size_t{rank.value()} + 1);
  of_rank_[rank.value()] = RankSlots{std::vector<OpenSlot>(kSlotCount), {}};
}

void Slots::drop_rank(WorldRank rank) {
  std::erase_if(filled_, [rank](const Deferred& filled) { return filled.rank == rank; });
  if (rank.value() < of_rank_.size()) of_rank_[rank.value()] = RankSlots{};
}

Slots::OpenSlot* Slots::find_open(WorldRank rank, SlotIndex slot) {
  if (rank.value() >= of_rank_.size()) return nullptr;
  std::vector<OpenSlot>& slots = of_rank_[rank.value()].slots;
  return slot.value() < slots.size() && slots[slot.value()].open ? &slots[slot.value()] : nullptr;
}

bool Slots::open(WorldRank rank, SlotIndex slot, bool told) {
  if (rank.value() >= of_rank_.size() || slot.value() >= kSlotCount) return false;
  std::vector<OpenSlot>& slots = of_rank_[rank.value()].slots;
  if (slots.empty() || slots[slot.value()].open) return false;
  slots[slot.value()] = OpenSlot{true, told, {}, 0};
  return true;
}

OverflowRecord* Slots::record_at(WorldRank rank, LocalRef record) const {
  const RankMemory& memory = *ranks_.find(rank);
  std::byte* shared = memory.mapped(RegionId{record.region}, record.address, sizeof(OverflowRecord));
  const bool aligned = reinterpret_cast<std::uintptr_t>(shared) % alignof(OverflowRecord) == 0;
  return aligned ? reinterpret_cast<OverflowRecord*>(shared) : nullptr;
}

std::optional<SlotIndex> Slots::open_record(WorldRank rank, LocalRef record, bool told) {
  if (rank.value() >= of_rank_.size() || of_rank_[rank.value()].slots.empty()) return std::nullopt;
  if (record_at(rank, record) == nullptr) return std::nullopt;
  auto& [slots, records] = of_rank_[rank.value()];
  if (!records.addresses.insert(record.address).second) return std::nullopt;
  if (records.free.empty()) {
    records.free.emplace_back(static_cast<std::uint32_t>(slots.size()));
    records.by_index.emplace_back();
    slots.emplace_back();
  }
  const SlotIndex slot = records.free.back();
  records.free.pop_back();
  records.by_index[slot.value() - kSlotCount] = record;
  slots[slot.value()] = OpenSlot{true, told, {}, 0};
  return slot;
}

OperationSlot* Slots::shared_slot(WorldRank rank, SlotIndex slot) const {
  if (slot.value() < kSlotCount) return &ranks_.find(rank)->segment().slot(slot);
  OverflowRecord* record = record_at(rank, of_rank_[rank.value()].records.by_index[slot.value() - kSlotCount]);
  return record == nullptr ? nullptr : &record->operation;
}

OperationSlot* Slots::close(WorldRank rank, SlotIndex slot) {
  auto& [slots, records] = of_rank_[rank.value()];
  slots[slot.value()].open = false;
  if (slot.value() >= kSlotCount) {
    records.addresses.erase(records.by_index[slot.value() - kSlotCount].address);
    records.free.push_back(slot);
  }
  return shared_slot(rank, slot);
}

void Slots::set_marks(WorldRank rank, SlotIndex slot, LocalRef marks, std::uint32_t group_size) {
  OpenSlot* open = find_open(rank, slot);
  if (open == nullptr) return;
  open->marks = marks;
  open->group_size = group_size;
}

void Slots::set_lateness(WorldRank rank, SlotIndex slot, std::uint64_t late_ns) {
  if (OpenSlot* open = find_open(rank, slot)) open->late_ns = late_ns;
}

void Slots::mark_block(WorldRank destination, SlotIndex slot, GroupRank source, BlockMark mark) {
  const OpenSlot* open = find_open(destination, slot);
  if (open == nullptr || source.value() >= open->group_size) return;
  const RankMemory& memory = *ranks_.find(destination);
  std::byte* place = memory.mapped(RegionId{open->marks.region}, open->marks.address + source.value(), 1);
  if (place == nullptr) return;  // the rank has dropped the region during its own operation
  std::atomic_ref<std::uint8_t>(*reinterpret_cast<std::uint8_t*>(place))
      .store(static_cast<std::uint8_t>(mark), std::memory_order_release);
}

void Slots::complete(WorldRank rank, SlotIndex slot, const CompletionRecord& record) {
  const OpenSlot* open = find_open(rank, slot);
  if (open == nullptr) return;
  const OpenSlot was = *open;
  std::erase_if(filled_, [&](const Deferred& filled) { return filled.rank == rank && filled.slot == slot; });
  OperationSlot* shared = close(rank, slot);
  if (shared == nullptr) return;
  if (!was.told) write_result(*shared, record, was);
  shared->state.store(static_cast<std::uint32_t>(SlotState::done), std::memory_order_release);
  wake_sleepers(ranks_.find(rank)->segment().header());
}

void Slots::fill(WorldRank rank, SlotIndex slot, const CompletionRecord& record) {
  const OpenSlot* open = find_open(rank, slot);
  if (open != nullptr && !open->told) filled_.push_back({rank, slot, record});  // or an earlier service process has
}

bool Slots::tell_filled() {
  if (filled_.empty()) return false;
  for (const Deferred& filled : std::exchange(filled_, {})) {
    OpenSlot* open = find_open(filled.rank, filled.slot);
    if (open == nullptr) continue;
    assert(!open->told && "a rank is told once that an operation is filled");
    OperationSlot* shared = shared_slot(filled.rank, filled.slot);
    if (shared == nullptr) continue;
    open->told = true;
    write_result(*shared, filled.record, *open);
    shared->state.store(static_cast<std::uint32_t>(SlotState::filled), std::memory_order_release);
    wake_sleepers(ranks_.find(filled.rank)->segment().header());
  }
  return true;
}

std::vector<Slots::Deferred> Slots::take_deferred() {
  return std::exchange(deferred_, {});
}

}  // namespace outrigger::fabric
