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

bool TakeOver::all_read() const {
  return std::ranges::all_of(ranks_.all(), [](const auto& item) {
    const RemoteRank& rank = *item.second;
    return !rank.serves || rank.taken_over == RemoteRank::TakenOver::read || rank.is_known();
  });
}

void TakeOver::look_after() {
  for (const auto& [number, rank] : ranks_.all()) {
    const bool to_be_read = rank->taken_over == RemoteRank::TakenOver::to_be_read;
    if (to_be_read && rank->is_reached()) read(*rank);
  }
}

// A failure means that the connection has broken or the rank has left.
void TakeOver::read(RemoteRank& rank) {
  rank.taken_over = RemoteRank::TakenOver::being_read;
  rank.scan = std::make_unique<SegmentScan>(*rank.remote, *rank.reader);
  rank.scan->begin([this, number = rank.rank](bool ok) {
    RemoteRank* here = ranks_.find(number);
    if (here != nullptr && ok) copies_.take_over(*here, [this, number](bool over) { copies_are_over(number, over); });
  });
}

// No rank copies for the dead process any more.
void TakeOver::copies_are_over(WorldRank number, bool over) {
  RemoteRank* here = ranks_.find(number);
  if (here == nullptr || !over) return;
  here->taken_over = RemoteRank::TakenOver::read;
  here->mirror.header().service_sleeping.store(0, std::memory_order_relaxed);
}

void TakeOver::go_on() {
  for (const auto& [number, rank] : ranks_.all()) {
    if (!rank->serves) continue;
    rank->line_changed = true;
    if (rank->taken_over == RemoteRank::TakenOver::read) rank->taken_over = RemoteRank::TakenOver::yes;
  }
}

}  // namespace outrigger::fabric::dpu
