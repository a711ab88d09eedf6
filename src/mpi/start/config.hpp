// What the user asked for by environment variables. Read once, in MPI_Init; must be equal on all ranks (its digest is
// compared there and travels with every operation).
//
//   OUTRIGGER_ENABLE=0            nothing is offloaded
//   OUTRIGGER_SERVICES=K          service processes per node
//   OUTRIGGER_SERVICE_CPUS=6,7    cores for them
//   OUTRIGGER_ALGORITHM=ialltoall=ring_pull,iallgather:n2-=node_ring
//                                 rules of the selection table, see client/selection.hpp
//   OUTRIGGER_BLOCKING=on|off     the blocking forms are offloaded, too, or never; else where that pays
//   OUTRIGGER_SHARED_HEAP=on      large allocations come from memory that service processes map, too; read also by
//                                 the heap's library, which is preloaded in front of this one
//   OUTRIGGER_WAIT_COPIES=on|off  ranks that wait make copies for their service process while all of its ranks wait,
//                                 unless they have computed since their last post
//   OUTRIGGER_HUGE_PAGES=on|off   private memory that is copied from again and again is moved to huge pages
//   OUTRIGGER_REACH=mapped,xpmem,cma,copier,rdma,alias,bounce
//   OUTRIGGER_DPUS=HOST=DPU:PORT,...
//                                 where `outriggerd dpu` listens for each host; service processes run there
//   OUTRIGGER_DPU_SECRET=HEX      what it wants to have proven
//   OUTRIGGER_USE_DPU=0           both are ignored
//   OUTRIGGER_UCX_TLS=rc,ud       transports to DPUs, as UCX_TLS; service processes read it, too
//   OUTRIGGER_MIN_BYTES=N         collectives whose blocks are all alike (MPI_Ialltoall, MPI_Iallgather, MPI_Ibcast)
//                                 stay native where those are smaller
//   OUTRIGGER_REPORT=FILE|-       write a report at MPI_Finalize (-: a table on stderr)
//   OUTRIGGER_INIT_TIMEOUT_MS=N   how long ranks wait for each other's answer in MPI_Init; limits for a DPU follow
//   OUTRIGGER_DAEMON=PATH         of outriggerd
//   OUTRIGGER_PRETEND_NODES=N     split every machine's ranks into N nodes that share no memory (for tests)
//   OUTRIGGER_VERBOSE=1           say what was found
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "client/selection.hpp"
#include "protocol/control.hpp"

namespace outrigger::mpi {

enum class BlockingForms : std::uint8_t { native, where_it_pays, offloaded };

struct Config {
  std::uint32_t services = 0;  // 0: the keeper decides
  std::string service_cpus;
  client::SelectionTable selection;
  std::uint32_t reach = kReachAll;
  BlockingForms blocking = BlockingForms::where_it_pays;
  bool shared_heap = false;
  bool wait_copies = true;
  bool huge_pages = true;
  std::uint64_t min_bytes = 0;
  std::string report;  // empty: none
  std::uint32_t init_timeout_ms = 20000;
  std::string daemon_path;
  std::uint32_t pretend_nodes = 1;
  bool verbose = false;
  std::string dpus;  // empty: no DPU
  Secret dpu_secret{};
  std::string transports;  // to the DPU; empty: what UCX's own settings name

  // Of everything that every rank must know alike.
  [[nodiscard]] std::uint64_t digest() const;
};

// HOST:PORT of the DPU for a host, from OUTRIGGER_DPUS: of those that name it, or `localhost`, the `number`-th, from 0.
// Error: there is none.
[[nodiscard]] Result<std::string> dpu_for(std::string_view dpus, std::string_view host, std::uint32_t number);

// OUTRIGGER_ENABLE, before anything else is looked at.
[[nodiscard]] bool enabled_by_environment();

// An error names the variable, its value and what is valid.
[[nodiscard]] Result<Config> read_config();

}  // namespace outrigger::mpi
