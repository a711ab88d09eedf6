#include "fabric/dpu/take_over.hpp"

#include <algorithm>
#include <atomic>
#include <memory>

namespace outrigger::fabric::dpu {
void TakeOver::begin(WorldRank number) {
  RemoteRank* rank = ranks_.find(number);
  if (rank == nullptr) return;
  rank->serves = true;
  rank->taken_over = RemoteRank::TakenOver::to_be_read;
}

bool TakeOver::is_over() const {
  return std::ranges::all_of(ranks_.all(),
                             [](const auto& item) { return !item.second->serves || item.second->is_known(); });
}

void TakeOver::look_after() {
  for (const auto& [number, rank] : ranks_.all()) {
    const bool to_be_read = rank->taken_over == RemoteRank::TakenOver::to_be_read;
    if (to_be_read && rank->is_reached()) read(*rank);
  }
}

// Where it fails the connection has broken, or the rank has left.
void TakeOver::read(RemoteRank& rank) {
  rank.taken_over = RemoteRank::TakenOver::being_read;
  rank.scan = std::make_unique<SegmentScan>(*rank.remote, *rank.reader);
  rank.scan->begin([this, number = rank.rank](bool ok) {
    RemoteRank* here = ranks_.find(number);
    if (here == nullptr || !ok) return;
    here->taken_over = RemoteRank::TakenOver::yes;
    here->mirror.header().service_sleeping.store(0, std::memory_order_relaxed);
  });
}

void TakeOver::tell_lines() {
  for (const auto& [number, rank] : ranks_.all()) rank->line_changed = rank->line_changed || rank->serves;
}

}  // namespace outrigger::fabric::dpu
