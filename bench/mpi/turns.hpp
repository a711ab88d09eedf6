// One rank measures while the others sleep, because ranks may share a core.
#pragma once

#include <mpi.h>
#include <semaphore.h>

namespace harm {

// Collective over MPI_COMM_WORLD; ends the job if the ranks are not all on one node.
class Turns {
 public:
  Turns();
  ~Turns();
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // On all ranks but the first: sleeps until the first one calls wake_all(). At most one call may be pending.
  void sleep();
  // On the first rank.
  void wake_all();

 private:
  [[nodiscard]] sem_t* semaphore_of(int rank) const;

  MPI_Win window_ = MPI_WIN_NULL;
  int rank_ = 0;
  int ranks_ = 0;
};

}  // namespace harm
