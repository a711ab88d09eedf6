// Ending the job with a message.
#pragma once

#include <string_view>

namespace halo {

// Prints "halo: message" and ends every rank. Call between MPI_Init and MPI_Finalize.
[[noreturn]] void fail(std::string_view message);
// What all ranks find alike, and call this with: rank 0 says it, and the job ends in order.
[[noreturn]] void refuse(std::string_view message);

}  // namespace halo
