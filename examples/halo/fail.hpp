// Ends the job with a message.
#pragma once

#include <string_view>

namespace halo {

// Prints "halo: message" and ends every rank. Call it between MPI_Init and MPI_Finalize.
[[noreturn]] void fail(std::string_view message);
// For errors that all ranks detect: rank 0 prints the message, and the job ends in order.
[[noreturn]] void refuse(std::string_view message);

}  // namespace halo
