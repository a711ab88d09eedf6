#include "fabric/dpu/segment_scan.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace outrigger::fabric::dpu {
namespace {

constexpr std::size_t kScanLineBytes = 64;
constexpr std::size_t kScanChunkBytes = 256U << 10;
constexpr int kMostGroupReads = 100;  // retries while the rank makes and frees communicators
constexpr std::size_t kComparedBytes = offsetof(GroupEntry, done_below);

bool has_state(const OperationSlot& slot, SlotState state) {
  return slot.state.load(std::memory_order_relaxed) == static_cast<std::uint32_t>(state);
}

// Ignores the rank's progress on each group, which is one word.
bool same_groups(std::span<const std::byte> one, std::span<const std::byte> other) {
  if (one.size() != other.size()) return false;
  for (std::size_t at = 0; at < one.size(); at += sizeof(GroupEntry)) {
    if (!std::ranges::equal(one.subspan(at, kComparedBytes), other.subspan(at, kComparedBytes))) return false;
  }
  return true;
}

}  // namespace

Rma::Done SegmentScan::step(Next next) {
  ++left_;
  return [this, next, alive = std::weak_ptr(alive_)](bool ok) {
    if (alive.expired()) return;
    failed_ = failed_ || !ok;
    if (--left_ != 0) return;
    if (failed_) return std::exchange(done_, nullptr)(false);
    (this->*next)();
  };
}

void SegmentScan::begin(Rma::Done done) {
  done_ = std::move(done);
  const SegmentHeader& header = remote_.mirror().header();
  base_ = header.rank_base_address.load(std::memory_order_relaxed);
  const Rma::Done of_rank = step(&SegmentScan::read_slots);
  const Rma::Done of_service = step(&SegmentScan::read_slots);
  remote_.fetch(&header.ring_tail, kScanLineBytes, of_rank);
  remote_.fetch(&header.completions, kScanLineBytes, of_service);
}

// The segment's address was known before.
void SegmentScan::read_slots() {
  remote_.mirror().header().rank_base_address.store(base_, std::memory_order_relaxed);
  tail_ = remote_.mirror().header().ring_tail.load(std::memory_order_relaxed);
  const auto* first = reinterpret_cast<const std::byte*>(&remote_.mirror().slot(SlotIndex{0}));
  constexpr std::size_t kAll = kSlotCount * sizeof(OperationSlot);
  std::vector<Rma::Done> ended;
  for (std::size_t at = 0; at < kAll; at += kScanChunkBytes) {
    ended.push_back(step(&SegmentScan::read_done_slots_again));
  }
  for (std::size_t i = 0; i < ended.size(); ++i) {
    const std::size_t at = i * kScanChunkBytes;
    remote_.fetch(first + at, std::min(kScanChunkBytes, kAll - at), std::move(ended[i]));
  }
}

bool SegmentScan::was_posted(SlotIndex slot) const {
  return static_cast<std::int32_t>(tail_ - remote_.mirror().slot(slot).position) > 0;
}

void SegmentScan::read_done_slots_again() {
  std::vector<std::pair<SlotIndex, Rma::Done>> again;
  for (std::uint32_t index = 0; index < kSlotCount; ++index) {
    const SlotIndex slot{index};
    if (!has_state(remote_.mirror().slot(slot), SlotState::done) || !was_posted(slot)) continue;
    again.emplace_back(slot, step(&SegmentScan::read_groups));
  }
  if (again.empty()) return read_groups();
  for (auto& [slot, ended] : again) remote_.fetch(&remote_.mirror().slot(slot), kScanLineBytes, std::move(ended));
}

std::span<std::byte> SegmentScan::groups() const {
  const std::uint32_t used = remote_.mirror().header().groups_used.load(std::memory_order_relaxed);
  return {reinterpret_cast<std::byte*>(&remote_.mirror().group(0)), std::min(used, kGroupEntries) * sizeof(GroupEntry)};
}

void SegmentScan::read_groups() {
  if (groups().empty()) return read_arguments();
  remote_.fetch(groups().data(), groups().size(), step(&SegmentScan::compare_groups));
}

void SegmentScan::compare_groups() {
  const std::span<const std::byte> now = groups();
  if (++group_reads_ == kMostGroupReads || same_groups(now, groups_before_)) return read_arguments();
  groups_before_.assign(now.begin(), now.end());
  read_groups();
}

void SegmentScan::read_arguments() {
  std::vector<SlotIndex> posted;
  for (std::uint32_t index = 0; index < kSlotCount; ++index) {
    const SlotIndex slot{index};
    if (has_state(remote_.mirror().slot(slot), SlotState::posted) && was_posted(slot)) posted.push_back(slot);
  }
  reader_.resume(tail_, std::move(posted), std::exchange(done_, nullptr));
}

}  // namespace outrigger::fabric::dpu
