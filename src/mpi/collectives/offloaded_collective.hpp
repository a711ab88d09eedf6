// One offloaded collective of this rank, from the call that starts it to the call that collects its request.
//
// The request is a generalized one. When the service process has finished, the first completion call that looks
// unpacks, marks the request complete, and the MPI's own Wait or Test then collects it. Of a persistent collective
// (persistent/persistent.hpp) it is the MPI's own, which to the MPI is not active meanwhile.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "client/operations/operation_request.hpp"
#include "mpi/communicators/comm_state.hpp"
#include "mpi/native/abi.hpp"
#include "mpi/types/blocks.hpp"
#include "protocol/collective.hpp"
#include "report/ledger.hpp"

namespace outrigger::mpi {

struct Job;
struct PersistentStarts;

struct Operation {
  // The one description of the operation: the client makes the slot's request from it. It stays from one run of a
  // persistent collective to the next.
  client::OperationRequest asked;
  CommState* comm = nullptr;  // holds a reference
  client::PendingOperationPtr pending;
  MPI_Request request{};
  PersistentStarts* persistent = nullptr;  // of a persistent collective: it is used for one run after the other
  Blocks send{asked.send};
  Blocks receive{asked.receive};
  bool in_place = false;
  bool source_overwritten = false;         // in place, and blocks are received where blocks are sent from
  bool copies_own_block = false;           // this rank has to, and has not yet
  bool freed_by_user = false;              // MPI_Request_free before the end
  bool active = false;                     // handed over, and not done; under the lists' lock
  std::atomic<std::uint32_t> holders = 1;  // its request, and calls that look at it
  std::atomic<bool> busy = false;          // a thread is looking at it
  std::atomic<bool> done = false;          // the request is marked complete, `error` is final
  std::atomic<bool> taken = false;         // a completion call gives the request to the program
  int error = MPI_SUCCESS;
  report::LedgerRow* counted = nullptr;  // for the report; null: nothing is counted
  std::int64_t posted_ns =
      0;  // where it is counted: end of its starting call; 0: the program has waited for it already
  std::atomic<std::int64_t> hides_from_ns = 0;  // where it is counted: from the end of its starting call
  std::int64_t hides_until_ns = 0;              // ... to the beginning of the wait; 0: the program has not waited
  Operation* previous = nullptr;                // list of those not done
  Operation* next = nullptr;                    // ... or of those to be used again
};

// The block that need not be copied between the user's buffer and staging, as it is where it belongs; peers(): none. Of
// a reduction every block is a part of the vector.
[[nodiscard]] inline std::uint32_t block_in_place(const Operation& operation) {
  const bool is_there = operation.in_place && !operation.asked.reduction;
  return is_there ? operation.comm->me().value() : operation.receive.peers();
}

// A held operation is not used for another, even if another thread collects its request meanwhile. Somebody else holds
// it when hold() is called. Its request is a holder from the beginning.
inline void hold(Operation& operation) {
  operation.holders.fetch_add(1, std::memory_order_relaxed);
}
void drop(Operation& operation);

class OperationHold {
 public:
  OperationHold() = default;
  explicit OperationHold(Operation& operation) : operation_(&operation) { hold(operation); }
  OperationHold(OperationHold&& other) noexcept : operation_(std::exchange(other.operation_, nullptr)) {}
  OperationHold& operator=(OperationHold&& other) noexcept {
    std::swap(operation_, other.operation_);
    return *this;
  }
  ~OperationHold() {
    if (operation_ != nullptr) drop(*operation_);
  }
  [[nodiscard]] explicit operator bool() const { return operation_ != nullptr; }
  [[nodiscard]] Operation& operator*() const { return *operation_; }
  [[nodiscard]] Operation* operator->() const { return operation_; }

 private:
  Operation* operation_ = nullptr;
};

// A blank operation, in nobody's hands. Reused ones keep their lists' memory.
[[nodiscard]] Operation* make_operation();

// Hands the operation over and makes its request, unless it is a persistent one's. Ends the program when there is no
// memory for that.
void launch(Job& job, Operation& operation, std::uint64_t sequence);

// Looks whether the operation has ended, and if so finishes it (unpacks, marks the request complete). True: it is done;
// its request may be collected. Copies the rank's own block if that is the rank's to do. Never blocks.
[[nodiscard]] bool progress(Job& job, Operation& operation);

// A completion call gives the program a run of a persistent collective that is done: its request is inactive again.
void collect_run(Operation& operation);

// MPI_Request_free: the operation goes on without its request. False: it is done.
[[nodiscard]] bool free_by_user(Operation& operation);
// Finishes operations whose request the user has freed.
void progress_freed(Job& job);

// Looks at a few that are not done, at others each time. How many are done now.
int progress_some(Job& job);

// Before MPI_Finalize: waits (bounded) for what the program has not waited for.
void drain_operations(Job& job);

}  // namespace outrigger::mpi
