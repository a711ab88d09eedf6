// What the user asked for by environment variables. Read once, in MPI_Init; must be equal on all ranks (its digest is
// compared there and travels with every operation).
//
//   OUTRIGGER_ENABLE=0            nothing is offloaded
//   OUTRIGGER_SERVICES=K          service processes per node
//   OUTRIGGER_SERVICE_CPUS=6,7    cores for them
//   OUTRIGGER_ALGORITHM=ialltoall=ring_pull,ialltoallv=scatter_dest
//   OUTRIGGER_REACH=mapped,cma,copier,bounce
//   OUTRIGGER_MIN_BYTES=N         MPI_Ialltoall with smaller blocks stays native
//   OUTRIGGER_REPORT=FILE|-       write a report at MPI_Finalize (-: a table on stderr)
//   OUTRIGGER_INIT_TIMEOUT_MS=N   how long ranks wait for each other's answer in MPI_Init
//   OUTRIGGER_DAEMON=PATH         of outriggerd
//   OUTRIGGER_PRETEND_NODES=N     split every machine's ranks into N nodes that share no memory (for tests)
//   OUTRIGGER_VERBOSE=1           say what was found
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "protocol/collective.hpp"
#include "protocol/control.hpp"
#include "protocol/result.hpp"

namespace outrigger::mpi {

struct Config {
  std::uint32_t services = 0;  // 0: the keeper decides
  std::string service_cpus;
  Algorithm ialltoall = Algorithm::ring_pull;
  Algorithm ialltoallv = Algorithm::ring_pull;
  std::uint32_t reach = kReachAll;
  std::uint64_t min_bytes = 0;
  std::string report;  // empty: none
  std::uint32_t init_timeout_ms = 20000;
  std::string daemon_path;
  std::uint32_t pretend_nodes = 1;
  bool verbose = false;

  [[nodiscard]] Algorithm algorithm_of(Collective collective) const {
    return collective == Collective::ialltoall ? ialltoall : ialltoallv;
  }
  // Of everything that every rank must know alike.
  [[nodiscard]] std::uint64_t digest() const;
};

// OUTRIGGER_ENABLE, before anything else is looked at.
[[nodiscard]] bool enabled_by_environment();

// An error names the variable, its value and what is valid.
[[nodiscard]] Result<Config> read_config();

}  // namespace outrigger::mpi
