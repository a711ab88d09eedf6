// How a rank waits for others in MPI_Init. They may need its core to get there, and MPIs that wait by themselves may
// keep it: MPICH 4.0 never yields. So nothing here waits inside the MPI.
#pragma once

#include <chrono>

namespace outrigger::mpi {

// One wait. Gives the core away at each turn: at first for whoever is ready to run, which is soonest back where that
// are other ranks that wait so, then by short sleeps, which leave it to those who compute.
class Patience {
 public:
  void turn();

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point began_ = Clock::now();
};

// False: it has not come true, and the time is over.
template <class Condition>
bool wait_until(std::chrono::steady_clock::time_point deadline, const Condition& condition) {
  Patience patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    patience.turn();
  }
  return true;
}

// As long as it takes.
template <class Condition>
void wait_for(const Condition& condition) {
  static_cast<void>(wait_until(std::chrono::steady_clock::time_point::max(), condition));
}

}  // namespace outrigger::mpi
