#include "fabric/dpu/delivered_marks.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

namespace outrigger::fabric::dpu {

void DeliveredMarks::add(WorldRank rank, SlotIndex slot, GroupRank source) {
  const std::uint32_t place = source.value();
  // Blocks of one operation often end one after another.
  if (!added_.empty() && added_.back().rank == rank && added_.back().slot == slot) {
    added_.back().first = std::min(added_.back().first, place);
    added_.back().end = std::max(added_.back().end, place + 1);
  } else {
    added_.push_back(Added{rank, slot, place, place + 1});
  }
}

void DeliveredMarks::write() {
  if (added_.empty()) return;
  const std::vector<Added> added = std::exchange(added_, {});
  under_way_.push_back(added.size());
  const std::uint64_t turn = ++begun_;
  for (const Added& one : added) write_those_of(one, turn);
}

// The mirror's slot was decoded before, so the rank cannot change it. Unset marks in between are unset at the rank,
// too. Networks read put data late, so this is a copy.
void DeliveredMarks::write_those_of(const Added& added, std::uint64_t turn) {
  RemoteRank* rank = ranks_.find(added.rank);
  const RankMemory* memory = node_.rank(added.rank);
  const std::byte* here = nullptr;
  const std::uint64_t count = added.end - added.first;
  MemoryRef to;
  if (rank != nullptr && memory != nullptr) {
    const LocalRef marks = rank->mirror.slot(added.slot).body.marks;
    to = MemoryRef{added.rank, RegionId{marks.region}, marks.address + added.first};
    here = memory->mapped(to.region, to.address, count);
  }
  if (here == nullptr) return ranks_.rma().later([this, turn] { ended(turn); });
  const auto copy = std::make_shared<const std::vector<std::byte>>(here, here + count);
  rank->remote->put(to, *copy, [this, copy, turn](MoveStatus /*status*/) { ended(turn); });
}

void DeliveredMarks::ended(std::uint64_t turn) {
  --under_way_[turn - in_place_ - 1];
  while (!under_way_.empty() && under_way_.front() == 0) {
    under_way_.pop_front();
    ++in_place_;
  }
}

}  // namespace outrigger::fabric::dpu
