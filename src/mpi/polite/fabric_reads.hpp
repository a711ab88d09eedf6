// Redirects the reads of completion queues of libfabric. An MPI makes them through tables of functions that belong to
// the queues, not through slots of its library (library_slot.hpp). Each queue gets a copy of its table for that.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace outrigger::mpi {

using ReadQueue = ssize_t(void* queue, void* entries, std::size_t count);

// Before the library that contains `inside` opens a queue. Reads stay native until they are redirected, and cost
// nothing more until then. Nothing happens if the library does not use libfabric.
void prepare_fabric_reads(const void* inside);
[[nodiscard]] bool has_fabric_queues();
// Any thread. nullptr: all reads are native again.
void redirect_fabric_reads(ReadQueue* to);
// The queue's own function.
[[nodiscard]] ReadQueue* native_read(const void* queue);

}  // namespace outrigger::mpi
