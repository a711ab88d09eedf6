// A thread that looks several times a second if the MPI's thread has its core for itself (core_contention.hpp). The
// thread of the MPI executes no instruction for it.
#pragma once

namespace outrigger::mpi {

// Watches the calling thread and calls `change` for each change, in a thread of its own. False: there can
// be no thread. Without the kernel's figures nothing changes.
[[nodiscard]] bool start_contention_watch(void (*change)(bool polite));
// Returns when `change` is not called any more.
void stop_contention_watch();

}  // namespace outrigger::mpi
