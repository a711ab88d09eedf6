// Tools that follow which memory has been written, valgrind's memcheck and the memory sanitizer, see what this process
// does. What a service process or another rank has put into its memory they take for uninitialised unless told.
#pragma once

namespace outrigger::mpi {

struct Operation;

// The blocks that `operation` has received from others count as written. Call it when they are all there, before
// anything reads them. Where no such tool runs that is the test of a flag.
void mark_received(const Operation& operation);

}  // namespace outrigger::mpi
