// Ends the whole job when it cannot continue.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace outrigger::mpi {

// Prints, then ends the whole job by PMPI_Abort.
[[noreturn, gnu::format(printf, 1, 2)]] void die(const char* format, ...);

// Ends the whole job; the reason has been printed.
[[noreturn]] void abort_job(std::string_view why);

// `observer` is called before the job ends in this way. Set in MPI_Init.
using AbortObserver = void (*)(std::int32_t code, const std::string& why);
void observe_aborts(AbortObserver observer);

}  // namespace outrigger::mpi
