#include "mpi/report/on_demand.hpp"

#include <mutex>

#include "mpi/job/job.hpp"
#include "mpi/job/standing.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/real.hpp"
#include "mpi/report/comm_records.hpp"
#include "mpi/report/counting.hpp"
#include "mpi/report/writing.hpp"

namespace outrigger::mpi {
namespace {

constinit std::mutex demand_mutex;
constinit bool wanted = false;
constinit bool begun = false;

// Under the lock, between MPI_Init and MPI_Finalize.
bool begin_counting() {
  if (counting()) return true;
  if (!abi_matches() || !start_counting()) return false;
  int rank = 0;
  int size = 0;
  real().Comm_rank(constants().comm_world, &rank);
  real().Comm_size(constants().comm_world, &size);
  begin_ledger({static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(size), "", ""});
  begun = true;
  return register_comm_records();
}

}  // namespace

bool count_on_demand() {
  if (counting()) return true;
  const std::scoped_lock lock(demand_mutex);
  switch (stage()) {
    case Stage::before_init: return wanted = true;
    case Stage::running: return begin_counting();
    case Stage::finalized: break;
  }
  return false;
}

void begin_wanted_counting() {
  const std::scoped_lock lock(demand_mutex);
  if (wanted) static_cast<void>(begin_counting());  // prints a line if there is no memory
}

void end_counting_on_demand() {
  const std::scoped_lock lock(demand_mutex);
  if (!begun) return;
  begun = false;
  stop_counting();
  forget_comm_records();
}

}  // namespace outrigger::mpi
