// Finds out if all ranks of the program have this library in the same version and configuration.
//
// Asked once, in MPI_Init, of ranks some of which may lack the library. So it uses neither collectives, which those
// would never join, nor messages that programs could receive (hidden_message.hpp).
//
//     parent  hello ------>         announces that it will answer
//             <------- vote  child  for the child's subtree; only to a parent that has sent hello
//             decision --->         rank 0's
//
// On a binomial tree from rank 0. A rank waits for hello and votes up to a time limit. After its vote it waits without
// a limit: rank 0 may have decided with its vote. So all ranks with the library decide alike, within the other ranks'
// time limits. A rank without a hello decides "no" for its subtree.
#pragma once

#include <cstdint>
#include <string>

namespace outrigger::mpi {

struct Agreement {
  bool all = false;
  bool speaks = false;  // this rank prints the message
  std::string reason;   // the reason for "no"
};

// Collective over the ranks that have the library. `reason`: empty if this rank agrees.
[[nodiscard]] Agreement agree_at_init(std::uint64_t digest, const std::string& reason, std::uint32_t timeout_ms);

}  // namespace outrigger::mpi
