#include "mpi/collectives/offloaded_collective.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/futex_lock.hpp"
#include "base/no_cancellation.hpp"
#include "base/unread_output.hpp"
#include "client/operations/pending_operation.hpp"
#include "mpi/collectives/bad_buffers.hpp"
#include "mpi/collectives/small_blocks.hpp"
#include "mpi/completion/defined.hpp"
#include "mpi/completion/native_waits.hpp"
#include "mpi/completion/request_table.hpp"
#include "mpi/completion/waiting.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/die.hpp"
#include "mpi/native/message.hpp"
#include "mpi/native/real.hpp"
#include "mpi/persistent/persistent.hpp"
#include "mpi/report/report.hpp"
#include "mpi/types/packing.hpp"

namespace outrigger::mpi {
namespace detail {
constinit std::atomic<std::uint32_t> freed_count = 0;
}
namespace {

constexpr std::size_t kSpareOperations = 64;  // kept to be used again; more are given back
constexpr std::size_t kLooksAtOnce = 4;
constexpr auto kDrainLimit = std::chrono::seconds(30);
// The error handler may end the job, and a launcher then throw away what it has not read.
constexpr std::chrono::milliseconds kToBeRead{1000};

constinit FutexLock list_mutex;
constinit std::mutex freed_mutex;
constinit Operation* active_operations = nullptr;
constinit Operation* next_look = nullptr;  // of them, by progress_some(); nullptr: the first
constinit Operation* spare = nullptr;
constinit std::size_t spares = 0;

void link(Operation& operation) {
  const std::scoped_lock lock(list_mutex);
  operation.active = true;
  operation.previous = nullptr;
  operation.next = active_operations;
  if (active_operations != nullptr) active_operations->previous = &operation;
  active_operations = &operation;
}

// True: the program has freed its request.
bool unlink(Operation& operation) {
  const std::scoped_lock lock(list_mutex);
  operation.active = false;
  if (next_look == &operation) next_look = operation.next;
  (operation.previous != nullptr ? operation.previous->next : active_operations) = operation.next;
  if (operation.next != nullptr) operation.next->previous = operation.previous;
  operation.previous = nullptr;
  operation.next = nullptr;
  return operation.freed_by_user;
}

bool keep_spare(Operation& operation) {
  const std::scoped_lock lock(list_mutex);
  if (spares == kSpareOperations) return false;
  operation.next = spare;
  spare = &operation;
  ++spares;
  return true;
}

// The first of some spare ones for which this is true; nullptr if there is none.
template <class Wanted>
Operation* take_spare(const Wanted& wanted) {
  const std::scoped_lock lock(list_mutex);
  Operation** place = &spare;
  for (std::size_t looks = 0; *place != nullptr && looks < kLooksAtOnce; ++looks, place = &(*place)->next) {
    Operation* const operation = *place;
    if (!wanted(*operation)) continue;
    *place = operation->next;
    --spares;
    operation->next = nullptr;
    return operation;
  }
  return nullptr;
}

Operation* take_spare() {
  return take_spare([](const Operation& /*any*/) { return true; });
}

// Neither posted nor collected.
void begin(Operation& operation) {
  operation.freed_by_user = false;
  operation.busy.store(true, std::memory_order_relaxed);
  operation.done.store(false, std::memory_order_relaxed);
  operation.taken.store(false, std::memory_order_relaxed);
  operation.holders.store(1, std::memory_order_relaxed);
  operation.error = MPI_SUCCESS;
  operation.counted = nullptr;
}

// The MPI forgets the request.
void free_request(Operation& operation) {
  if (!operation.has_request) return;
  complete_for_mpi(operation);
  MPI_Request request = operation.own_request;
  real().Wait(&request, MPI_STATUS_IGNORE);
}

void recycle(Operation& operation) {
  operation.taken.store(true, std::memory_order_relaxed);  // also a persistent one, which is not collected
  if (operation.complete.load(std::memory_order_acquire)) free_request(operation);
  if (keep_spare(operation)) return;
  free_request(operation);
  delete &operation;
}

// A status that says so, but for its error.
MPI_Status make_status_of_collective() {
  MPI_Status status{};
  status.MPI_SOURCE = MPI_ANY_SOURCE;
  status.MPI_TAG = MPI_ANY_TAG;
  real().Status_set_elements(&status, constants().byte, 0);
  real().Status_set_cancelled(&status, 0);
  return status;
}

int query(void* /*state*/, MPI_Status* status) {
  set_status(status);
  return MPI_SUCCESS;
}

// The MPI lets go of the request: only now may its handle mean something else. Unless this library has collected it,
// the program has let the MPI do so.
int release(void* state) {
  auto& operation = *static_cast<Operation*>(state);
  erase_request(operation.own_request);
  operation.has_request = false;  // but still `complete`, for other threads that look at it
  collect(operation);
  return MPI_SUCCESS;
}

// A collective cannot be cancelled.
int cancel(void* /*state*/, int /*complete*/) {
  return MPI_SUCCESS;
}

int error_code(CompletionStatus status) {
  switch (status) {
    case CompletionStatus::ok: return MPI_SUCCESS;
    case CompletionStatus::truncated:
    case CompletionStatus::passed_natively: return MPI_ERR_TRUNCATE;
    default: return MPI_ERR_OTHER;
  }
}

void copy_own_block(Operation& operation) {
  if (!operation.copies_own_block) return;
  operation.copies_own_block = false;
  const std::uint32_t me = operation.comm->me().value();
  const HandedPair sent = pair_with(operation.send, me);
  const HandedPair room = pair_with(operation.receive, me);
  if (sent.bytes > room.bytes) operation.error = MPI_ERR_TRUNCATE;
  const std::uint64_t bytes = std::min(sent.bytes, room.bytes);
  if (bytes != 0) std::memcpy(operation.receive.handed(room.peer), operation.send.handed(sent.peer), bytes);
}

std::string details_of(const Operation& operation, const client::OperationResult& result) {
  if (result.status == CompletionStatus::memory_fault) return "; " + bad_buffer_of(operation);
  if (result.status != CompletionStatus::passed_natively) return {};
  const std::uint64_t bytes = std::max(operation.send.largest_bytes(), operation.receive.largest_bytes());
  return "; this rank passes " + std::to_string(bytes) + " bytes, and rank " +
         std::to_string(result.passed_by.value()) + " a count for which the call is left to its MPI";
}

void explain(const Job& job, const Operation& operation, const client::OperationResult& result) {
  if (result.status == CompletionStatus::ok || result.status == CompletionStatus::truncated) return;
  const NoCancellation whole;
  print("rank %u: %s on a communicator of %u ranks failed: %s%s", job.world_rank,
        name_of(operation.asked.collective).data(), operation.comm->size(), name_of(result.status).data(),
        details_of(operation, result).c_str());
  wait_until_read(STDERR_FILENO, kToBeRead);
}

// It has ended.
void set_done(Operation& operation) {
  const bool freed = unlink(operation);
  operation.done.store(true, std::memory_order_release);
  if (!freed) return;
  detail::freed_count.fetch_sub(1, std::memory_order_relaxed);
  collect(operation);
}

// The service process is done with it.
void finish(Job& job, Operation& operation) {
  const client::OperationResult& result = operation.pending->result;
  if (operation.error == MPI_SUCCESS) operation.error = error_code(result.status);
  explain(job, operation, result);
  if (result.status == CompletionStatus::ok) mark_received(operation);
  if (operation.receive.staged() && result.status == CompletionStatus::ok) {
    operation.receive.copy(Packing::unpack, job.packing_comm, block_in_place(operation));
  }
  if (counting()) count_completion(operation, result);
  job.client->rest(operation.pending);
  const bool persistent = operation.persistent != nullptr;
  for (Blocks* side : {&operation.send, &operation.receive}) {
    persistent ? side->end_run(*job.client) : side->reset(job.client.get());
  }
  set_done(operation);
}

// False: it has not ended.
bool finish_if_ended(Job& job, Operation& operation) {
  copy_own_block(operation);
  if (!job.client->poll(*operation.pending)) return false;
  finish(job, operation);
  return true;
}
bool finish_by_ranks(const Job& job, Operation& operation) {
  if (!operation.posted.is_due()) return false;
  operation.error = operation.posted.collect(job);
  set_done(operation);
  return true;
}

std::vector<OperationHold> snapshot(bool freed_only) {
  std::vector<OperationHold> operations;
  const std::scoped_lock lock(list_mutex);
  for (Operation* operation = active_operations; operation != nullptr; operation = operation->next) {
    if (!freed_only || operation->freed_by_user) operations.emplace_back(*operation);
  }
  return operations;
}

std::array<OperationHold, kLooksAtOnce> some_active() {
  std::array<OperationHold, kLooksAtOnce> some;
  const std::scoped_lock lock(list_mutex);
  const Operation* first = nullptr;
  for (OperationHold& operation : some) {
    if (next_look == nullptr) next_look = active_operations;
    if (next_look == nullptr || next_look == first) break;
    if (first == nullptr) first = next_look;
    operation = OperationHold(*next_look);
    next_look = next_look->next;
  }
  return some;
}

std::span<const std::uint32_t> neighbors_of(const Blocks& blocks) {
  return blocks.neighbors() == nullptr ? std::span<const std::uint32_t>() : blocks.neighbors()->ranks;
}

// Some blocks are unpacked by a message (types/packing.hpp), which the MPI cannot wait for inside of its progress.
bool may_need_message(const Operation& operation) {
  if (operation.by_ranks) return false;
  return !operation.receive.dense() && operation.receive.largest_bytes() > kPackChunkBytes;
}

// The program has waited for them, but others have yet to read; meanwhile these may wait for native messages of this
// rank. One wait: a rank that has said that it waits is asked for copies.
void drain_kept(Job& job, Waiter& waiter) {
  if (job.client->usage().kept == 0) return;
  while (job.client->usage().kept != 0) waiter.pause();
}

void make_request(Operation& operation) {
  const int code = start_request({&query, &release, &cancel}, operation);
  if (code != MPI_SUCCESS) die("%s gave out no generalized request (code %d)", kAbiName, code);
  operation.has_request = true;
  operation.complete.store(false, std::memory_order_relaxed);
  insert_request(operation.own_request, operation);
}

void give_request(Operation& operation) {
  operation.comm->retain();
  if (!operation.has_request) make_request(operation);
  operation.request = operation.own_request;
  count_outstanding();
}

void let_others_finish(Operation& operation) {
  link(operation);
  operation.busy.store(false, std::memory_order_release);
}

}  // namespace

Operation* make_operation() {
  Operation* operation = take_spare();
  if (operation == nullptr) return new Operation;
  operation->asked.root.reset();
  operation->asked.reduction.reset();
  operation->asked.part_offset_bytes = 0;
  operation->persistent = nullptr;
  operation->by_ranks = false;
  operation->in_place = operation->source_overwritten = false;
  operation->copies_own_block = operation->asked.own_block_done = false;
  operation->described_by.call = Call::count;
  begin(*operation);
  return operation;
}

Operation* take_described(const CallWords& words) {
  Operation* operation = take_spare([&words](const Operation& one) { return one.described_by == words; });
  if (operation != nullptr) begin(*operation);
  return operation;
}

void give_back(Operation& operation) {
  operation.described_by.call = Call::count;
  operation.holders.store(0, std::memory_order_relaxed);
  recycle(operation);
}

void launch(Job& job, Operation& operation, std::uint64_t sequence) {
  client::OperationRequest& asked = operation.asked;
  asked.group = operation.comm->group(*job.client);
  asked.sequence = sequence;
  asked.native_calls = operation.comm->take_native_calls(sequence);
  asked.configuration = job.digest;
  asked.send_neighbors = neighbors_of(operation.send);
  asked.receive_neighbors = neighbors_of(operation.receive);
  asked.timed = operation.counted != nullptr;
  // A barrier has no memory to keep, and is not to be told of before its end.
  asked.kept =
      asked.collective != Collective::ibarrier && is_kept(job, operation.send) && is_kept(job, operation.receive);
  asked.staging = {};
  if (asked.kept) asked.staging = {operation.send.hand_over_staging(), operation.receive.hand_over_staging()};
  operation.pending = job.client->post(asked, std::move(operation.pending));
  asked.group.reset();  // the operation in flight has it
  if (operation.pending == nullptr) die("no memory left for the arguments of %s", name_of(asked.collective).data());
  if (!operation.pending->others_have_posted) note_needed_turn();
  if (operation.persistent == nullptr) give_request(operation);
  let_others_finish(operation);
}

void launch_by_ranks(Operation& operation) {
  operation.posted_ns = 0;
  give_request(operation);
  let_others_finish(operation);
}

bool progress(Job& job, Operation& operation) {
  if (operation.done.load(std::memory_order_acquire)) return true;
  if (operation.busy.exchange(true, std::memory_order_acquire)) return false;  // another thread is at it
  if (operation.done.load(std::memory_order_acquire)) return true;
  if (!(operation.by_ranks ? finish_by_ranks(job, operation) : finish_if_ended(job, operation))) {
    operation.busy.store(false, std::memory_order_release);
    return false;
  }
  return true;
}

void complete_for_mpi(Operation& operation) {
  if (operation.persistent != nullptr || operation.complete.exchange(true)) return;
  real().Grequest_complete(operation.own_request);
}

bool progress_for_mpi(Job& job, Operation& operation) {
  if (!progress(job, operation)) return false;
  complete_for_mpi(operation);
  return true;
}

bool collect(Operation& operation) {
  if (operation.taken.exchange(true, std::memory_order_relaxed)) return false;
  uncount_outstanding();
  drop(operation);
  return true;
}

void set_status(MPI_Status* status) {
  if (status == MPI_STATUS_IGNORE) return;
  static const MPI_Status of_collective = make_status_of_collective();  // the MPI is asked once
  const int error = status->MPI_ERROR;                                  // is not the function's to change
  *status = of_collective;
  status->MPI_ERROR = error;
}

void collect_run(Operation& operation) {
  operation.persistent->state = PersistentStarts::State::inactive;
  operation.posted_ns = 0;
}

void drop(Operation& operation) {
  if (operation.holders.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (operation.persistent != nullptr) {
    delete std::exchange(operation.persistent, nullptr);
    operation.send.reset(nullptr);
    operation.receive.reset(nullptr);
  }
  std::exchange(operation.comm, nullptr)->release();
  recycle(operation);
}

bool free_by_user(Operation& operation) {
  const std::scoped_lock lock(list_mutex);  // other threads look for it in the list
  if (!operation.active) return false;
  operation.freed_by_user = true;
  detail::freed_count.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void progress_freed(Job& job) {
  if (!anything_freed()) return;
  const std::unique_lock lock(freed_mutex, std::try_to_lock);  // one thread at a time: the operations end in here
  if (!lock.owns_lock()) return;
  for (const OperationHold& operation : snapshot(true)) static_cast<void>(progress(job, *operation));
}

int progress_some(Job& job) {
  int done = 0;
  for (const OperationHold& operation : some_active()) {
    if (operation && !may_need_message(*operation) && progress_for_mpi(job, *operation)) ++done;
  }
  return done;
}

void collect_posted(Job& job) {
  for (const OperationHold& operation : snapshot(false)) {
    if (operation->by_ranks) static_cast<void>(progress_for_mpi(job, *operation));
  }
}

void forget_spare_operations() {
  while (Operation* operation = take_spare()) {
    free_request(*operation);
    delete operation;
  }
}

void drain_operations(Job& job) {
  const auto deadline = std::chrono::steady_clock::now() + kDrainLimit;
  Waiter waiter(job, Waiter::Drives::native);
  while (true) {
    for (const OperationHold& operation : snapshot(false)) static_cast<void>(progress_for_mpi(job, *operation));
    const std::size_t left = snapshot(false).size();
    if (left == 0) return drain_kept(job, waiter);
    if (std::chrono::steady_clock::now() > deadline) {
      print("rank %u: MPI_Finalize was called while %zu offloaded collectives had not ended", job.world_rank, left);
      return;
    }
    waiter.pause();  // a peer may wait for native messages of this rank first
  }
}

}  // namespace outrigger::mpi
