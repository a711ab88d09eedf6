// This thread polls its MPI between other looks, and must not be delayed by that (mpi/polite).
#pragma once

#include <utility>

namespace outrigger::mpi {

[[gnu::tls_model("initial-exec")]] inline constinit thread_local bool polls_without_pauses = false;

class PollsWithoutPauses {
 public:
  PollsWithoutPauses() : outer_(std::exchange(polls_without_pauses, true)) {}
  PollsWithoutPauses(const PollsWithoutPauses&) = delete;
  PollsWithoutPauses& operator=(const PollsWithoutPauses&) = delete;
  ~PollsWithoutPauses() { polls_without_pauses = outer_; }

 private:
  bool outer_;
};

}  // namespace outrigger::mpi
