#include "fabric/dpu/sleep_notices.hpp"

#include <atomic>
#include <utility>

namespace outrigger::fabric::dpu {
namespace {

using Sleep = RemoteRank::Sleep;

}  // namespace

// Sends the notice, and polls once more for posts from before the rank got it. If there are any, the attempt ends for
// all ranks: notified ranks are not polled while this one's posts keep the service process awake.
void SleepNotices::begin(RemoteRank& rank) {
  rank.sleep = Sleep::telling;
  all_awake_ = false;
  rank.mirror.header().service_sleeping.store(1, std::memory_order_relaxed);
  rank.line_changed = true;
  rank.line_told.push_back(
      [this, number = rank.rank, attempt = ++rank.sleep_attempts](bool /*ok*/) { told(number, attempt); });
}

RemoteRank* SleepNotices::still_telling(WorldRank number, std::uint64_t attempt) {
  RemoteRank* rank = ranks_.find(number);
  const bool still = rank != nullptr && rank->sleep == Sleep::telling && rank->sleep_attempts == attempt;
  return still ? rank : nullptr;
}

// A poll in flight may have begun before the notice, so the next one counts.
void SleepNotices::told(WorldRank number, std::uint64_t attempt) {
  RemoteRank* rank = still_telling(number, attempt);
  if (rank == nullptr) return;
  rank->reader->after_next_poll([this, number, attempt](bool ok) { looked_again(number, attempt, ok); });
}

void SleepNotices::looked_again(WorldRank number, std::uint64_t attempt, bool ok) {
  RemoteRank* rank = still_telling(number, attempt);
  if (rank == nullptr) return;
  if (!ok || !rank->reader->caught_up()) return wake_up();
  rank->sleep = Sleep::asleep;
}

bool SleepNotices::all_know() {
  bool all = true;
  for (const auto& [number, rank] : ranks_.all()) {
    // Only a rank's answer wakes a sleeping process for the earlier stages.
    const bool awaited = rank->in_no_hurry && rank->stage == RemoteRank::Stage::connecting && !rank->serves;
    all = all && (awaited || rank->stage >= RemoteRank::Stage::reached);
    if (rank->serves && rank->is_reached() && !rank->is_known()) all = false;
    if (!rank->serves || rank->left || rank->remote->broken() || !rank->is_known()) continue;
    if (rank->sleep == Sleep::awake) begin(*rank);
    all = all && rank->sleep == Sleep::asleep && !rank->telling && rank->completed.empty() && !rank->line_under_way;
  }
  return all;
}

void SleepNotices::wake_up() {
  if (std::exchange(all_awake_, true)) return;
  for (const auto& [number, rank] : ranks_.all()) {
    if (rank->sleep == Sleep::awake) continue;
    rank->sleep = Sleep::awake;
    rank->mirror.header().service_sleeping.store(0, std::memory_order_relaxed);
    rank->line_changed = true;
  }
}

}  // namespace outrigger::fabric::dpu
