// Notifies each served rank, before the service process sleeps, that posts must ring its doorbell.
//
// Thread rule: one thread.
#pragma once

#include "fabric/dpu/remote_ranks.hpp"

namespace outrigger::fabric::dpu {

class SleepNotices {
 public:
  explicit SleepNotices(RemoteRanks& ranks) : ranks_(ranks) {}

  // Notifies the ranks. True: all have the notice, and none has posted since.
  [[nodiscard]] bool all_know();
  // See DpuFabric::wake_up().
  void wake_up();

 private:
  void begin(RemoteRank& rank);
  // nullptr: this attempt is over.
  [[nodiscard]] RemoteRank* still_telling(WorldRank rank, std::uint64_t attempt);
  void told(WorldRank rank, std::uint64_t attempt);
  void looked_again(WorldRank rank, std::uint64_t attempt, bool ok);

  RemoteRanks& ranks_;
  bool all_awake_ = true;
};

}  // namespace outrigger::fabric::dpu
