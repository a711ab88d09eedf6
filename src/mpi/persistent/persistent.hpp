// Persistent collectives: MPI_X_init describes an operation once, and each MPI_Start runs it.
//
// The program's request is the MPI's own, as MPI_X_init is passed on. If a start is native, the MPI does everything.
// Otherwise the described operation is posted without the MPI. For the MPI the request stays inactive, and may never
// have been started. Not all MPIs support that: MPICH 4.0 waits for it for ever. So completion calls find it in our
// table (request_table.hpp), and show the MPI a null request instead, unless its last start was native.
//
//   MPI_X_init    ranks call it in one order: the how-manieth it is on its communicator names a group of its own
//   MPI_Start     ranks may start different ones in different orders; the how-manieth start of this one it is numbers
//                 the operation, and the group's dispatch plan says whether it is native: on all ranks alike
//
// Thread rule: any thread; one request is used by one at a time, as MPI requires.
#pragma once

#include <atomic>
#include <cstdint>

#include "mpi/collectives/offloaded_collective.hpp"
#include "mpi/collectives/post.hpp"
#include "mpi/native/abi.hpp"
#include "report/ledger.hpp"

namespace outrigger::mpi {

struct Job;

// State of one operation's starts.
struct PersistentStarts {
  steer::CallKey key;
  Decision table;
  report::NativeReason native = report::NativeReason::none;  // reason of the last native start
  enum class State : std::uint8_t {
    inactive,  // ... but the last start was not native
    running,   // ... and is active
    native     // active or not, as the MPI knows
  } state = State::inactive;
};

namespace detail {
extern constinit std::atomic<std::uint32_t> persistent_count;
}

// The first check of MPI_Start.
[[nodiscard]] inline bool nothing_persistent() {
  return detail::persistent_count.load(std::memory_order_relaxed) == 0;
}

// `operation` is the one of the MPI's inactive `request`. Always true.
bool keep_for_starts(const Offload::Starts& starts, Operation& operation, MPI_Request request);
// Empty: not a persistent collective, or always native.
[[nodiscard]] OperationHold find_persistent(MPI_Request request);
// The request is about to be freed: forgets it.
void erase_persistent(MPI_Request request);
// At the end, when nothing runs any more.
void forget_all_persistent();

[[nodiscard]] inline bool is_running(const Operation& operation) {
  return operation.persistent->state == PersistentStarts::State::running;
}
// The MPI completes its request.
[[nodiscard]] inline bool is_native(const Operation& operation) {
  return operation.persistent != nullptr && operation.persistent->state == PersistentStarts::State::native;
}
// MPI_Start of one that is inactive, at first: whether it is not native. All ranks come to the same.
[[nodiscard]] bool start_offloaded(const Job& job, Operation& operation);
// Then, if so.
void start_run(Job& job, Operation& operation);

}  // namespace outrigger::mpi
