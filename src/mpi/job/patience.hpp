// Waits of a rank for others in MPI_Init. The others may need this rank's core, and an MPI's own waits may keep it:
// MPICH 4.0 never yields. So nothing here waits inside the MPI.
#pragma once

#include <chrono>

namespace outrigger::mpi {

// One wait. Gives up the core in each round: first by yields, which return soonest if the others are waiting ranks,
// then by short sleeps, which leave the core to computing processes.
class Patience {
 public:
  void turn();

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point began_ = Clock::now();
};

// False: timeout.
template <class Condition>
bool wait_until(std::chrono::steady_clock::time_point deadline, const Condition& condition) {
  Patience patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    patience.turn();
  }
  return true;
}

// Waits without a limit.
template <class Condition>
void wait_for(const Condition& condition) {
  static_cast<void>(wait_until(std::chrono::steady_clock::time_point::max(), condition));
}

}  // namespace outrigger::mpi
