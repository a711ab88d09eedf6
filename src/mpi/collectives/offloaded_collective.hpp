// One offloaded collective of this rank, from the call that starts it to the call that collects its request.
//
// The request is a generalized one. When the service process has finished, the first completion call that looks
// unpacks. If that call also collects the request, the MPI is not told: the next operation uses the same request.
// Otherwise the request is marked complete, as the MPI may be asked for it. A persistent collective
// (persistent/persistent.hpp) uses the MPI's own request, which is inactive for the MPI until then.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "client/operations/operation_request.hpp"
#include "mpi/communicators/comm_state.hpp"
#include "mpi/intranode/posted_call.hpp"
#include "mpi/native/abi.hpp"
#include "mpi/native/real.hpp"
#include "mpi/types/blocks.hpp"
#include "protocol/collective.hpp"
#include "report/ledger.hpp"

namespace outrigger::mpi {

struct Job;
struct PersistentStarts;

// A call by its words, the request left out. Arguments that other words point to do not count.
struct CallWords {
  static constexpr std::size_t kMost = 8;
  Call call = Call::count;  // count: none
  std::uint64_t freed = 0;  // freed_communicators() at the call
  std::array<Word, kMost> words{};
  bool operator==(const CallWords&) const = default;
};

struct Operation {
  // The one description of the operation: the client makes the slot's request from it. It stays from one run of a
  // persistent collective to the next.
  client::OperationRequest asked;
  CommState* comm = nullptr;  // holds a reference
  client::PendingOperationPtr pending;
  MPI_Request request{};
  MPI_Request own_request{};               // a generalized one, if has_request; kept for the next operation
  PersistentStarts* persistent = nullptr;  // of a persistent collective, which uses this for all its runs
  Blocks send{asked.send};
  Blocks receive{asked.receive};
  PostedCall posted;  // by this rank, if `by_ranks`: no service process knows of the operation
  bool by_ranks = false;
  bool in_place = false;
  // A call with these words describes the same operation again, on that communicator, and is decided by these bytes.
  CallWords described_by;
  CommState* described_on = nullptr;
  std::optional<std::uint64_t> block_bytes;

  // State. A completion call gives the request to the program (`taken`).
  bool source_overwritten = false;         // in place: received blocks overwrite the sent ones
  bool copies_own_block = false;           // still to be copied
  bool freed_by_user = false;              // by MPI_Request_free
  bool has_request = false;                // own_request
  bool active = false;                     // handed over, not done; under the lists' lock
  std::atomic<std::uint32_t> holders = 1;  // its request, and calls
  std::atomic<bool> busy = true;           // not handed over yet, or a thread is looking at it
  std::atomic<bool> done = false;          // `error` is final
  std::atomic<bool> complete = false;      // own_request, for the MPI
  std::atomic<bool> taken = false;
  int error = MPI_SUCCESS;

  // For the report; nullptr if nothing is counted. The times are of counted operations only.
  report::LedgerRow* counted = nullptr;
  std::uint64_t ordinal = 0;                    // report::PresentCall
  std::int64_t posted_ns = 0;                   // end of its starting call; 0: the program has waited for it
  std::atomic<std::int64_t> hides_from_ns = 0;  // end of its starting call ...
  std::int64_t hides_until_ns = 0;              // ... to the beginning of the wait; 0: none yet

  Operation* previous = nullptr;  // in the list of unfinished operations
  Operation* next = nullptr;      // ... or of spare ones
};

// The block that is already in its place and is not copied between the user's buffer and staging; peers() if there is
// none. A reduction has none: all its blocks are parts of the vector.
[[nodiscard]] inline std::uint32_t block_in_place(const Operation& operation) {
  const bool is_there = operation.in_place && !operation.asked.reduction;
  return is_there ? operation.comm->me().value() : operation.receive.peers();
}

// A held operation is not reused, even if another thread collects its request, which is its first holder.
inline void hold(Operation& operation) {
  operation.holders.fetch_add(1, std::memory_order_relaxed);
}
// False: it has no holder, for the program uses a request that it has collected. Then the caller sees what the thread
// that collected it wrote before, the request in the program's memory above all.
[[nodiscard]] inline bool hold_if_used(Operation& operation) {
  std::uint32_t holders = operation.holders.load(std::memory_order_acquire);
  while (holders != 0) {
    if (operation.holders.compare_exchange_weak(holders, holders + 1, std::memory_order_acquire)) return true;
  }
  return false;
}
void drop(Operation& operation);

class OperationHold {
 public:
  OperationHold() = default;
  explicit OperationHold(Operation& operation) : operation_(&operation) { hold(operation); }
  [[nodiscard]] static OperationHold of_used(Operation& operation) {
    OperationHold held;
    if (hold_if_used(operation)) held.operation_ = &operation;
    return held;
  }
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

// A blank operation without holders but its request. Reused ones keep their request and their lists' memory.
[[nodiscard]] Operation* make_operation();
// One that a call with these words has described, but for its communicator; nullptr if there is none.
[[nodiscard]] Operation* take_described(const CallWords& words);
// It is not used after all.
void give_back(Operation& operation);

// Hands the operation over and makes its request, unless it is a persistent one. Ends the program if there is no memory
// for it.
void launch(Job& job, Operation& operation, std::uint64_t sequence);

// The same for what the ranks do by themselves, and have posted.
void launch_by_ranks(Operation& operation);

// If the operation has ended, finishes it (unpacks). True if it is done; then its request may be collected. Copies the
// rank's own block if the rank has to. Never blocks.
[[nodiscard]] bool progress(Job& job, Operation& operation);
// It is done, and the program does not collect it now: the MPI must know of its end.
void complete_for_mpi(Operation& operation);
// Both.
[[nodiscard]] bool progress_for_mpi(Job& job, Operation& operation);

// The program has its result, or never wants it. False: another thread has collected it.
bool collect(Operation& operation);
// The status of a collective.
void set_status(MPI_Status* status);

// A completion call gives the program a run of a persistent collective that is done: its request is inactive again.
void collect_run(Operation& operation);

// MPI_Request_free: the operation goes on, and is not collected. False if it is done.
[[nodiscard]] bool free_by_user(Operation& operation);
namespace detail {
extern constinit std::atomic<std::uint32_t> freed_count;
}
// There are operations that go on without a request.
[[nodiscard]] inline bool anything_freed() {
  return detail::freed_count.load(std::memory_order_relaxed) != 0;
}
// Finishes those that have ended.
void progress_freed(Job& job);

// Checks a few unfinished operations, other ones at each call. Returns how many are done now.
int progress_some(Job& job);
// Finishes those by ranks that have ended.
void collect_posted(Job& job);

// Before MPI_Finalize: waits, for a limited time, for operations that the program has not waited for.
void drain_operations(Job& job);
// Then: the MPI must have none of their requests.
void forget_spare_operations();

}  // namespace outrigger::mpi
