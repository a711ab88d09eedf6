// Do all ranks of the program have this library, in the same version and with the same configuration?
//
// Asked once, in MPI_Init, without collectives: a rank without the library would never answer one. Votes go up a
// binomial tree of point-to-point messages over MPI_COMM_WORLD with a reserved tag; rank 0 decides within the time
// limit; the decision goes down. Everybody else waits longer than rank 0 does, then takes the answer as "no".
#pragma once

#include <cstdint>
#include <string>

namespace outrigger::mpi {

struct Agreement {
  bool all = false;
  bool speaks = false;  // this rank tells the user
  std::string reason;   // why not
};

// Collective over the ranks that have the library. `reason` empty: this rank is willing.
[[nodiscard]] Agreement agree_at_init(std::uint64_t digest, const std::string& reason, std::uint32_t timeout_ms);

}  // namespace outrigger::mpi
