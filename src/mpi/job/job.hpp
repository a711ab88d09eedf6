// The running program as the library sees it, from MPI_Init to MPI_Finalize. While nothing is offloaded there is no
// current one, and entry points pass everything on; but ranks may still do collectives by themselves (mpi/intranode).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "client/start/attach.hpp"
#include "intranode/sums/order_file.hpp"
#include "mpi/job/config.hpp"
#include "mpi/native/abi.hpp"
#include "steer/rank/decision_file.hpp"
#include "steer/rank/dispatcher.hpp"

namespace outrigger::mpi {

struct Job {
  Config config;
  std::uint64_t digest = 0;         // of the configuration
  client::AttachedEndpoint client;  // nullptr: nothing is offloaded
  std::uint32_t world_rank = 0;
  std::uint32_t world_size = 0;
  std::uint32_t local_rank = 0;
  std::uint32_t local_size = 0;
  std::uint32_t nodes = 1;         // of the job
  std::uint32_t node = 0;          // number of this node
  std::uint32_t keepers_here = 1;  // nodes that this machine pretends to be
  std::uint32_t number_here = 0;   // number of this node among them
  std::vector<RankPlace> places;   // of all ranks, by world rank
  Wire wire = Wire::memory;        // between all nodes: also if one could
  copy::RankCores cores = copy::RankCores::own;
  std::unique_ptr<steer::DecisionFile> decisions;  // nullptr if nothing is measured
  std::unique_ptr<intranode::OrderFile> orders;    // of earlier jobs; nullptr if ranks learn none
  steer::DispatchSettings dispatch;                // of all communicators; refers to the members above
  bool on_dpu = false;                             // service processes are, of all nodes
  bool reporting = false;                          // a report is to be written
  MPI_Comm packing_comm{};                         // of this rank alone; errors return
  MPI_Group world_group{};
  int comm_keyval = MPI_KEYVAL_INVALID;
  int type_keyval = MPI_KEYVAL_INVALID;
  int team_keyval = MPI_KEYVAL_INVALID;
  int off_keyval = MPI_KEYVAL_INVALID;  // in jobs without service processes
};

namespace detail {
extern constinit std::atomic<Job*> current_job;
extern constinit std::atomic<Job*> intranode_job;
}  // namespace detail

// nullptr: native. Valid until MPI_Finalize.
[[nodiscard]] inline Job* current_job() {
  return detail::current_job.load(std::memory_order_acquire);
}

// The job in which the ranks of a node may do blocking collectives by themselves: the current one, or one in which
// nothing is offloaded. nullptr: they may not. Valid until MPI_Finalize.
[[nodiscard]] inline Job* intranode_job() {
  return detail::intranode_job.load(std::memory_order_acquire);
}

}  // namespace outrigger::mpi
