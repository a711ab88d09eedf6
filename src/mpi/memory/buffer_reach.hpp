// Detects private buffers that other processes cannot copy. Cross-memory attach does not reach device memory, secret
// memory (memfd_secret) or pages without read permission: for these the rank copies through staging.
#pragma once

#include "base/accessible_memory.hpp"
#include "mpi/types/blocks.hpp"

namespace outrigger::mpi {

// The blocks are in the program's buffer. Each call checks a page of each mapping of the blocks, and all of the
// mappings if one is new. False for inaccessible memory: the operation reports the error. Any thread.
[[nodiscard]] bool only_the_rank_reaches(const Blocks& blocks, Access access);

}  // namespace outrigger::mpi
