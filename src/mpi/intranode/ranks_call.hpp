// One blocking collective of the program: natively, or by the ranks of its communicator.
//
//     RanksCall call(job, collective, words, large);
//     if (call.by_ranks()) return call.perform();
//     ... native call ...
//     call.ended();
#pragma once

#include <cstdint>
#include <span>

#include "mpi/intranode/rank_team.hpp"
#include "mpi/native/real.hpp"
#include "protocol/collective_calls.hpp"

namespace outrigger::mpi {

struct Job;

class RanksCall {
 public:
  // `words`: the call's arguments. Comes to the same on all ranks.
  RanksCall(Job& job, CollectiveCall call, std::span<const Word> words, bool large_counts);

  [[nodiscard]] bool by_ranks() const { return turn_.way == steer::Way::ranks; }
  // Returns the call's MPI error code.
  [[nodiscard]] int perform();
  // The native call has returned.
  void ended() {
    if (turn_.timed) [[unlikely]]
      note_time();
  }

 private:
  void look_at(RankTeam::LastCall& last, MPI_Comm comm);
  void choose(RankTeam::Kind& kind);
  void note_time();

  Job& job_;
  RankTeam* team_ = nullptr;
  const TeamArguments* arguments_ = nullptr;
  RankTeam::Kind* kind_ = nullptr;
  steer::TurnsTrial::Turn turn_;
  std::int64_t began_ns_ = 0;
};

}  // namespace outrigger::mpi
