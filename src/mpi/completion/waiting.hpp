// Waits for the service process, drives the native MPI and leaves the core to others. It spins briefly, or yields if
// the service process may need the core. Then it yields, and then sleeps for at most a millisecond until the service
// process wakes it. Before each sleep it serves the program's messages as long as there are any. On request it also
// makes copies for the service process (client/wait_helper.hpp).
#pragma once

#include <chrono>
#include <cstdint>

#include "base/long_yields.hpp"
#include "base/traffic_pace.hpp"
#include "copy/policy.hpp"

namespace outrigger::mpi {

struct Job;

class Waiter {
 public:
  // Nothing: the caller makes the native MPI progress.
  enum class Drives : std::uint8_t { nothing, native };
  // `for_ranks`: also for what ranks do by themselves. No service process ends a sleep then, and each look is cheap, so
  // it spins and yields for longer.
  Waiter(Job& job, Drives drives, bool for_ranks = false)
      : job_(job), drives_(drives), for_ranks_(for_ranks), pace_(first_sleep(drives)) {}
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  ~Waiter();
  // Call it after every unsuccessful check. Ends the program if the service process is lost.
  void pause();

 private:
  using Clock = std::chrono::steady_clock;

  // A caller that drives the native MPI waits for its messages, too.
  [[nodiscard]] static std::chrono::nanoseconds first_sleep(Drives drives) {
    return drives == Drives::nothing ? TrafficPace::kShortestSleep : TrafficPace::kLongestSleep;
  }
  void drive();
  [[nodiscard]] bool spins_for_ranks();
  void look();
  void yield();
  void sleep();

  Job& job_;
  const Drives drives_;
  const bool for_ranks_;
  LongYields long_yields_;
  TrafficPace pace_;
  Clock::time_point returned_;  // from the last pause
  std::uint32_t rounds_ = 0;
  std::uint32_t rounds_for_ranks_ = 0;
  bool waits_ = false;                   // has announced that it waits
  copy::Waits helps_ = copy::Waits::no;  // and copies meanwhile
};

// For ranks that share cores, after posts: gives a turn to ranks that have not posted yet, as nothing moves before, and
// to the service process, as this rank may compute for long. Does nothing if neither needs it.
void let_others_post();
// This thread has posted an operation that needs such a turn.
void note_needed_turn();

// Ends the program if the service process or the keeper is lost; prints the reason unless the keeper has. Cheap enough
// for every round of a wait.
void end_if_lost(Job& job);
// After end_if_lost() has found that service processes continue although their keeper has died.
void say_if_unprotected(const Job& job);

// Gives the native MPI a chance to progress.
void drive_native();

// Programs may wait by calling Test in a loop. If ranks make the copies, each call makes one; it also checks for a lost
// service process.
void keep_going(Job& job);

}  // namespace outrigger::mpi
