// Do all ranks of the program have this library, in the same version and with the same configuration?
//
// Asked once, in MPI_Init, of ranks some of which may not have the library. So nothing is said by collectives, which
// they would never answer, nor by messages that their programs could receive (hidden_message.hpp).
//
//     parent  hello ------>         is there: it will answer
//             <------- vote  child  this rank's and those below it; only to a parent that is there
//             decision --->         rank 0's
//
// On a binomial tree from rank 0. A rank waits for hello and votes until its time is over. Once it has voted it waits
// as long as it takes: rank 0 may have decided with its vote. So all that have the library decide alike, and what is
// left to wait for is the time limit of ranks that are there. Without a hello a rank decides "no" for those below it.
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
