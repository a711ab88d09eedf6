// The running program as the library sees it, from MPI_Init to MPI_Finalize. nullptr while the program runs natively;
// then entry points pass everything on.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "client/client.hpp"
#include "mpi/job/config.hpp"
#include "mpi/native/abi.hpp"
#include "protocol/options/selection.hpp"
#include "steer/rank/decision_file.hpp"

namespace outrigger::mpi {

struct Job {
  Config config;
  std::uint64_t digest = 0;  // of the configuration
  std::unique_ptr<client::Client> client;
  std::uint32_t world_rank = 0;
  std::uint32_t world_size = 0;
  std::uint32_t local_rank = 0;
  std::uint32_t local_size = 0;
  std::uint32_t nodes = 1;         // of the job
  std::uint32_t node = 0;          // number of this node
  std::uint32_t keepers_here = 1;  // nodes that this machine pretends to be
  std::uint32_t number_here = 0;   // number of this node among them
  std::vector<RankPlace> places;   // of all ranks, by world rank
  copy::RankCores cores = copy::RankCores::own;
  std::unique_ptr<steer::DecisionFile> decisions;  // nullptr if nothing is measured
  bool native_at_first = false;  // calls without a rule are native until trials show that offloading is better
  bool on_dpu = false;           // the service processes of all nodes are
  bool reporting = false;        // there will be a report
  MPI_Comm packing_comm{};       // of this rank alone; errors return
  MPI_Group world_group{};
  int comm_keyval = MPI_KEYVAL_INVALID;
  int type_keyval = MPI_KEYVAL_INVALID;
};

namespace detail {
extern constinit std::atomic<Job*> current_job;
}

// nullptr: native. Valid until MPI_Finalize.
[[nodiscard]] inline Job* current_job() {
  return detail::current_job.load(std::memory_order_acquire);
}

}  // namespace outrigger::mpi
