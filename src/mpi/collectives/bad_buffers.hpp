// Whose memory it was that an operation could not reach.
#pragma once

#include <string>

namespace outrigger::mpi {

struct Operation;

// "its send buffer cannot be read at 0x7f..., byte 4096 of the block for rank 2"; or that this rank's own buffers are
// well, so that another rank's line has it. Of an operation that has failed so, before it gives up its buffers.
[[nodiscard]] std::string bad_buffer_of(const Operation& operation);

}  // namespace outrigger::mpi
