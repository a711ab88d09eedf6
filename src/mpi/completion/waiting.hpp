// How a rank waits for its service process: it keeps the native MPI going, and is considerate of those that share its
// core: spin briefly, or yield where the service process may want it, then yield, then sleep until the service process
// wakes them, a millisecond at most. Meanwhile it makes copies for the service process when that asks
// (client/wait_helper.hpp).
#pragma once

#include <cstdint>

namespace outrigger::mpi {

struct Job;

class Waiter {
 public:
  // Nothing: the caller makes the native MPI progress.
  enum class Drives : std::uint8_t { nothing, native };
  Waiter(Job& job, Drives drives) : job_(job), drives_(drives) {}
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  ~Waiter();
  // Call after every unsuccessful look. Ends the program when the service process is lost.
  void pause();

 private:
  void drive();

  Job& job_;
  const Drives drives_;
  std::uint32_t rounds_ = 0;
  bool waits_ = false;  // has said so
  bool helps_ = false;  // and copies meanwhile
};

// For ranks that share cores, once one has posted an operation: those get a turn that have yet to post, as nothing
// moves before they do, and the service process, as this one may compute for long.
void let_others_post();

// Ends the program when the service process or the keeper is lost; says why unless the keeper has. Cheap enough for
// every waiting round.
void end_if_lost(Job& job);
// As end_if_lost() has found: service processes go on without their keeper, which has died.
void say_if_unprotected(const Job& job);

// Gives the native MPI a chance to progress.
void drive_native();

// Programs may wait by calling Test in a loop: where ranks make the copies, one is made in each call, and the fate of
// the service process is looked at there too.
void keep_going(Job& job);

}  // namespace outrigger::mpi
