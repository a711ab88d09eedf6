// Lines for people on stderr, and the end of the program when it cannot go on.
#pragma once

#include <string_view>

namespace outrigger::mpi {

// Writes "outrigger: <text>\n" to stderr in one piece. Allocates nothing.
[[gnu::format(printf, 1, 2)]] void print(const char* format, ...);

// print(), then ends the whole job through PMPI_Abort.
[[noreturn, gnu::format(printf, 1, 2)]] void die(const char* format, ...);

// Ends the whole job; the reason has been printed, and is for the report, too.
[[noreturn]] void abort_job(std::string_view why);

}  // namespace outrigger::mpi
