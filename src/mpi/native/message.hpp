// Lines for people on stderr, and the end of the program when it cannot go on.
#pragma once

namespace outrigger::mpi {

// Writes "outrigger: <text>\n" to stderr in one piece. Allocates nothing.
[[gnu::format(printf, 1, 2)]] void print(const char* format, ...);

// print(), then ends the whole job through PMPI_Abort.
[[noreturn, gnu::format(printf, 1, 2)]] void die(const char* format, ...);

// Ends the whole job; the reason has been printed by somebody else.
[[noreturn]] void abort_job();

}  // namespace outrigger::mpi
