// Can other processes copy from and to a buffer in private memory? Cross-memory attach does not reach memory of
// devices, secret memory (memfd_secret) or pages without the permission to read: there the rank copies, through
// staging.
#pragma once

#include "base/accessible_memory.hpp"
#include "mpi/types/blocks.hpp"

namespace outrigger::mpi {

// The blocks must be handed over in the buffer. Each call looks at a page of each mapping that holds blocks, and at all
// mappings of the blocks when one of them is new. False for memory that nobody can touch: the operation finds the
// error. Any thread.
[[nodiscard]] bool only_the_rank_reaches(const Blocks& blocks, Access access);

}  // namespace outrigger::mpi
