// Tools that track initialized memory, valgrind's memcheck and the memory sanitizer, see only this process. Memory that
// a service process or another rank has written looks uninitialized to them. These functions mark it as initialized.
#pragma once

namespace outrigger::mpi {

struct Operation;

// Marks the blocks that `operation` has received from others as written. Call it when all have come, before they are
// read. Without such a tool it only tests a flag.
void mark_received(const Operation& operation);

}  // namespace outrigger::mpi
