// Takes over the ranks of a dead service process, once they are reached and their segments are read. The ranks keep
// running, but the mirrors stay as they were read until the found posts are taken: a reused slot has no information
// about its former operation.
//
// Thread rule: one thread.
#pragma once

#include "fabric/dpu/host_copies.hpp"
#include "fabric/dpu/remote_ranks.hpp"

namespace outrigger::fabric::dpu {

class TakeOver {
 public:
  TakeOver(RemoteRanks& ranks, HostCopies& copies) : ranks_(ranks), copies_(copies) {}

  void begin(WorldRank rank);
  // Reads the segments of reached ranks.
  void look_after();
  // True if the segments of all served ranks are read.
  [[nodiscard]] bool all_read() const;
  // The found posts have been taken: continues with later posts, and writes the mirrors' state of this service process
  // to the ranks.
  void go_on();

 private:
  void read(RemoteRank& rank);
  void copies_are_over(WorldRank rank, bool over);

  RemoteRanks& ranks_;
  HostCopies& copies_;
};

}  // namespace outrigger::fabric::dpu
