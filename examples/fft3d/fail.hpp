// Ends the job with a message.
#pragma once

#include <string_view>

namespace fft3d {

// Prints "fft3d: message" and ends every rank. Call it between MPI_Init and MPI_Finalize.
[[noreturn]] void fail(std::string_view message);

}  // namespace fft3d
