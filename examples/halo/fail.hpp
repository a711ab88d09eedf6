// Ending the job with a message.
#pragma once

#include <string_view>

namespace halo {

// Prints "halo: message" and ends every rank. Call between MPI_Init and MPI_Finalize.
[[noreturn]] void fail(std::string_view message);

}  // namespace halo
