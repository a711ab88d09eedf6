// Finds the buffer that an operation could not reach.
#pragma once

#include <string>

namespace outrigger::mpi {

struct Operation;

// "its send buffer cannot be read at 0x7f..., byte 4096 of the block for rank 2". If this rank's buffers are valid,
// says so: another rank's line then names the buffer. For a failed operation that still has its buffers.
[[nodiscard]] std::string bad_buffer_of(const Operation& operation);

}  // namespace outrigger::mpi
