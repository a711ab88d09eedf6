#include "fabric/host/host_fabric.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "fabric/host/cross_memory.hpp"
#include "protocol/segment.hpp"

namespace outrigger::fabric {

HostFabric::HostFabric(HostFabricOptions options) : options_(options) {
  options_.chunk_bytes = std::max<std::uint64_t>(options_.chunk_bytes, 4096);
  options_.progress_moves = std::max<std::uint32_t>(options_.progress_moves, 1);
}

void HostFabric::add_rank(WorldRank rank, RankMemory memory) {
  if (rank.value() >= ranks_.size()) ranks_.resize(std::size_t{rank.value()} + 1);
  Rank& added = ranks_[rank.value()].emplace(Rank{std::move(memory), {}, {}, nullptr, nullptr, 0, std::nullopt});
  added.slots.resize(kSlotCount);
}

HostFabric::Rank* HostFabric::find(WorldRank rank) {
  if (rank.value() >= ranks_.size() || !ranks_[rank.value()]) return nullptr;
  return &*ranks_[rank.value()];
}

RankMemory* HostFabric::rank(WorldRank rank) {
  Rank* found = find(rank);
  return found != nullptr ? &found->memory : nullptr;
}

void HostFabric::set_windows(WorldRank rank, std::unique_ptr<XpmemWindows> windows) {
  if (Rank* found = find(rank)) found->windows = std::move(windows);
}

void HostFabric::drop_rank(WorldRank rank) {
  Rank* found = find(rank);
  if (found == nullptr) return;
  if (found->copier) {
    // The process is gone or has misbehaved: what its copier still does is its own harm.
    std::vector<Piece> held;
    for (std::uint32_t i = 0; i < found->copier->pending(); ++i) held.push_back(found->copier->piece(i));
    for (const Piece& piece : held) give_up(piece);
    stop_helping(*found->copier);
    std::erase(helping_, rank);
    std::erase(with_copiers_, rank);
  }
  ranks_[rank.value()].reset();
  if (!deferred_.empty()) complete_deferred();
}

void HostFabric::add_peer(SpId peer, Mapping ring, UniqueFd doorbell) {
  ByteRingWriter writer(ring.base());
  peers_.insert_or_assign(peer, Peer{std::move(ring), writer, std::move(doorbell), {}});
}

bool HostFabric::open_slot(WorldRank rank, SlotIndex slot) {
  Rank* found = find(rank);
  if (found == nullptr || slot.value() >= kSlotCount || found->slots[slot.value()].open) return false;
  found->slots[slot.value()] = OpenSlot{true, {}, 0};
  return true;
}

std::optional<SlotIndex> HostFabric::open_record(WorldRank rank, LocalRef record) {
  Rank* found = find(rank);
  if (found == nullptr) return std::nullopt;
  const std::byte* shared = found->memory.mapped(RegionId{record.region}, record.address, sizeof(OverflowRecord));
  if (shared == nullptr || reinterpret_cast<std::uintptr_t>(shared) % alignof(OverflowRecord) != 0) return std::nullopt;
  OpenRecords& records = found->records;
  if (!records.addresses.insert(record.address).second) return std::nullopt;
  if (records.free.empty()) {
    records.free.emplace_back(static_cast<std::uint32_t>(found->slots.size()));
    records.by_index.emplace_back();
    found->slots.emplace_back();
  }
  const SlotIndex slot = records.free.back();
  records.free.pop_back();
  records.by_index[slot.value() - kSlotCount] = record;
  found->slots[slot.value()] = OpenSlot{true, {}, 0};
  return slot;
}

OperationSlot* HostFabric::close(Rank& rank, SlotIndex slot) {
  rank.slots[slot.value()].open = false;
  if (slot.value() < kSlotCount) return &rank.memory.segment().slot(slot);
  const LocalRef record = rank.records.by_index[slot.value() - kSlotCount];
  rank.records.addresses.erase(record.address);
  rank.records.free.push_back(slot);
  std::byte* shared = rank.memory.mapped(RegionId{record.region}, record.address, sizeof(OverflowRecord));
  if (shared == nullptr || reinterpret_cast<std::uintptr_t>(shared) % alignof(OverflowRecord) != 0) return nullptr;
  return &reinterpret_cast<OverflowRecord*>(shared)->operation;
}

HostFabric::OpenSlot* HostFabric::find_open(Rank* rank, SlotIndex slot) {
  if (rank == nullptr || slot.value() >= rank->slots.size() || !rank->slots[slot.value()].open) return nullptr;
  return &rank->slots[slot.value()];
}

void HostFabric::set_marks(WorldRank rank, SlotIndex slot, LocalRef marks, std::uint32_t group_size) {
  OpenSlot* open = find_open(find(rank), slot);
  if (open == nullptr) return;
  open->marks = marks;
  open->group_size = group_size;
}

NodeMemory::View HostFabric::view(const MemoryRef& memory, std::uint64_t bytes) {
  const RankMemory* owner = rank(memory.owner);
  if (owner == nullptr) return View{MoveStatus::owner_lost, nullptr, nullptr};
  if (!owner->accessible(memory.region, memory.address, bytes)) return View{MoveStatus::memory_fault, nullptr, nullptr};
  std::byte* mapped = owner->mapped(memory.region, memory.address, bytes);
  return View{MoveStatus::ok, mapped, owner->hold(memory.region)};
}

MoveStatus HostFabric::read(const MemoryRef& from, std::span<std::byte> to) {
  const View source = view(from, to.size());
  if (source.status != MoveStatus::ok) return source.status;
  if (source.bytes == nullptr) return read_from_process(rank(from.owner)->pid(), from.address, to);
  std::memcpy(to.data(), source.bytes, to.size());
  return MoveStatus::ok;
}

MoveStatus HostFabric::write(const MemoryRef& to, std::span<const std::byte> from) {
  const View destination = view(to, from.size());
  if (destination.status != MoveStatus::ok) return destination.status;
  if (destination.bytes == nullptr) return write_to_process(rank(to.owner)->pid(), to.address, from);
  std::memcpy(destination.bytes, from.data(), from.size());
  return MoveStatus::ok;
}

void HostFabric::send(SpId to, std::span<const std::byte> message) {
  const auto found = peers_.find(to);
  if (found == peers_.end() || message.size() > kByteRingMaxMessage) std::abort();  // a bug of ours
  Peer& peer = found->second;
  if (peer.waiting.empty() && peer.ring.write(message)) {
    wake(peer);
    return;
  }
  peer.waiting.emplace_back(message.begin(), message.end());
  ++messages_waiting_;
}

bool HostFabric::send_waiting(Peer& peer) {
  bool sent = false;
  while (!peer.waiting.empty() && peer.ring.write(peer.waiting.front())) {
    peer.waiting.pop_front();
    --messages_waiting_;
    sent = true;
  }
  if (sent) wake(peer);
  return sent;
}

void HostFabric::wake(Peer& peer) {
  if (!peer.ring.reader_sleeps()) return;
  const std::uint64_t one = 1;
  // Fails only when the counter is full, and then the peer is being woken anyway.
  [[maybe_unused]] const ssize_t written = ::write(peer.doorbell.get(), &one, sizeof(one));
}

void HostFabric::mark_delivered(WorldRank destination, SlotIndex slot, GroupRank source) {
  Rank* found = find(destination);
  const OpenSlot* open = find_open(found, slot);
  if (open == nullptr || source.value() >= open->group_size) return;
  std::byte* mark = found->memory.mapped(RegionId{open->marks.region}, open->marks.address + source.value(), 1);
  if (mark == nullptr) return;  // the rank has dropped the region under its own operation
  std::atomic_ref<std::uint8_t>(*reinterpret_cast<std::uint8_t*>(mark)).store(1, std::memory_order_release);
}

void HostFabric::complete(WorldRank rank, SlotIndex slot, const CompletionRecord& record) {
  Rank* found = find(rank);
  if (find_open(found, slot) == nullptr) return;
  if (orphans_ != 0 && has_orphans(rank)) {
    deferred_.push_back(Deferred{rank, slot, record});
    return;
  }
  OperationSlot* shared = close(*found, slot);
  if (shared == nullptr) return;
  shared->result.status = static_cast<std::uint32_t>(record.status);
  shared->result.late_announcements = record.late_announcements;
  shared->result.bytes_by_reach = record.bytes_by_reach;
  shared->state.store(static_cast<std::uint32_t>(SlotState::done), std::memory_order_release);
  wake_sleepers(found->memory.segment().header());
}

}  // namespace outrigger::fabric
