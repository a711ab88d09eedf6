// Before a service process sleeps, each rank that it serves knows that it must be woken.
//
// Thread rule: one thread.
#pragma once

#include "fabric/dpu/remote_ranks.hpp"

namespace outrigger::fabric::dpu {

class SleepNotices {
 public:
  explicit SleepNotices(RemoteRanks& ranks) : ranks_(ranks) {}

  // Tells the ranks. True: all know, and none has posted since.
  [[nodiscard]] bool all_know();
  // As DpuFabric::wake_up().
  void wake_up();

 private:
  void begin(RemoteRank& rank);
  // Null: this attempt is over.
  [[nodiscard]] RemoteRank* still_telling(WorldRank rank, std::uint64_t attempt);
  void told(WorldRank rank, std::uint64_t attempt);
  void looked_again(WorldRank rank, std::uint64_t attempt, bool ok);

  RemoteRanks& ranks_;
  bool all_awake_ = true;
};

}  // namespace outrigger::fabric::dpu
