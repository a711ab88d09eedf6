// Ranks whose service process has died, and which this one serves from now on: once they are reached, and their
// segments are read. They go on meanwhile, but the mirrors stay as they were read until what was found there is taken:
// a slot that is used again says nothing of the operation that it was used for before.
//
// Thread rule: one thread.
#pragma once

#include "fabric/dpu/remote_ranks.hpp"

namespace outrigger::fabric::dpu {

class TakeOver {
 public:
  explicit TakeOver(RemoteRanks& ranks) : ranks_(ranks) {}

  void begin(WorldRank rank);
  // Reads the segments of those that are reached.
  void look_after();
  // Of all ranks that are served here.
  [[nodiscard]] bool all_read() const;
  // What was found has been taken: what is posted behind it comes from now on, and the ranks are told what the mirrors
  // say of this service process.
  void go_on();

 private:
  void read(RemoteRank& rank);

  RemoteRanks& ranks_;
};

}  // namespace outrigger::fabric::dpu
