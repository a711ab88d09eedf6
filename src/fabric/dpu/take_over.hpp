// Ranks whose service process has died, and which this one serves from now on: once they are reached, and their
// segments are read.
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
  [[nodiscard]] bool is_over() const;
  // What the mirrors say of this service process is to be told to its ranks.
  void tell_lines();

 private:
  void read(RemoteRank& rank);

  RemoteRanks& ranks_;
};

}  // namespace outrigger::fabric::dpu
