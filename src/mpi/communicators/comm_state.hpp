// The library's state of a communicator, attached as an attribute.
//
// Every rank of a communicator must give it the same GroupId without communication inside a nonblocking call:
//   MPI_COMM_WORLD          a constant
//   dup, idup, ...          mixed from the parent's id and the number of this dup of the parent: the attribute's
//                           copy callback runs on every rank for every dup, in the same order. It counts only inside
//                           the program's own calls (DuplicateScope): Open MPI also copies attributes for create_group,
//                           only on its members
//   persistent collectives  mixed from their communicator's id and their number on it
//   other constructors      rank 0 of the new communicator broadcasts an id made of its world rank and a counter
// A communicator without the attribute (an intercommunicator, members outside the world) is native on all ranks.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "client/client.hpp"
#include "mpi/choice/comm_calls.hpp"
#include "mpi/communicators/neighbors.hpp"
#include "mpi/native/abi.hpp"
#include "mpi/report/counting.hpp"
#include "protocol/ids.hpp"
#include "protocol/options/selection.hpp"
#include "steer/plan/dispatch_plan.hpp"

namespace outrigger::mpi {

struct Job;

namespace detail {
extern constinit std::atomic<bool> everything_is_off;
extern constinit std::atomic<std::uint64_t> freed_communicators;
}  // namespace detail
// When this number changes, values that a thread keeps by communicator handle are invalid: another communicator may
// have the handle. Counts communicators with a state or a record (report/comm_records.hpp).
[[nodiscard]] inline std::uint64_t freed_communicators() {
  return detail::freed_communicators.load(std::memory_order_seq_cst);
}
void note_freed_communicator();

// The program has switched off all communicators.
[[nodiscard]] inline bool everything_is_off() {
  return detail::everything_is_off.load(std::memory_order_relaxed);
}

// The program's switch of a communicator's offloading. See switching.hpp.
class CommSwitch {
 public:
  explicit CommSwitch(bool off) : off_(off) {}

  // Nothing is offloaded on this communicator, or anywhere.
  [[nodiscard]] bool off() const { return off_here() || everything_is_off(); }
  [[nodiscard]] bool off_here() const { return off_.load(std::memory_order_relaxed); }
  void set_off(bool off) { off_.store(off, std::memory_order_relaxed); }
  // Counts calls that were native for this reason.
  void count() { count_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t counted() const { return count_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> off_;
  std::atomic<std::uint64_t> count_ = 0;
};

class CommState {
 public:
  // `base`: set for a persistent collective, which has no communicator of its own.
  CommState(GroupId id, std::vector<WorldRank> members, GroupRank me, bool off, const GroupShape& shape,
            CommState* base = nullptr);
  CommState(const CommState&) = delete;
  CommState& operator=(const CommState&) = delete;

  [[nodiscard]] GroupId id() const { return id_; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(members_.size()); }
  [[nodiscard]] GroupRank me() const { return me_; }
  // For the selection table.
  [[nodiscard]] const GroupShape& shape() const { return shape_; }
  [[nodiscard]] CommSwitch& by_program() { return by_program_; }
  // Digest of all calls so far that ranks must decide alike: equal on all ranks at the same place. nullopt for a freed
  // communicator, and for a persistent collective, which ranks may start in different orders.
  [[nodiscard]] std::optional<std::uint64_t> place_in_calls(const Job& job) const;
  // Numbers the offloaded collectives of this communicator, from 0, in the order of their posts.
  [[nodiscard]] std::uint64_t next_sequence() { return sequence_.fetch_add(1, std::memory_order_relaxed); }

  // A call is left to the MPI for its counts, and is not the first.
  void count_native_call() { native_tally_.count(); }
  // ... or is.
  void count_native_call(client::Client& client);
  // Called before the post of operation `sequence`: the number of such calls since the previous operation.
  [[nodiscard]] std::uint32_t take_native_calls(std::uint64_t sequence) { return native_tally_.post(sequence); }

  // This rank has called a collective with larger blocks while that is native for small ones. True: for the first time.
  [[nodiscard]] bool note_larger_blocks(Collective collective) {
    const steer::CollectiveBits bit = steer::Suspended::bit(collective);
    return (larger_blocks_.fetch_or(bit, std::memory_order_relaxed) & bit) == 0;
  }
  // The collective is not native for small blocks any more.
  void forget_larger_blocks(Collective collective) {
    const steer::CollectiveBits bit = steer::Suspended::bit(collective);
    if ((larger_blocks_.load(std::memory_order_relaxed) & bit) == 0) return;
    larger_blocks_.fetch_and(~bit, std::memory_order_relaxed);
  }

  // The communicator's handle, for its error handler; the world's once the communicator has been freed.
  [[nodiscard]] MPI_Comm error_comm() const;
  void attached_to(MPI_Comm comm);
  [[nodiscard]] bool has_comm() const { return comm_ != MPI_Comm{}; }
  // The user has freed the communicator.
  void detached() { freed_.store(true, std::memory_order_release); }

  // The group as the client knows it, made at first use.
  [[nodiscard]] std::shared_ptr<const client::Group> group(client::Client& client);
  // The same, held by this state, for each call; nullptr: it cannot be made.
  [[nodiscard]] const client::Group* known_group(client::Client& client);
  // The first rank records the choices for this communicator's calls for the next run.
  void note_choices(const Job& job);
  // The client goes away; nothing is posted any more.
  void drop_group();

  [[nodiscard]] CommCalls& calls() { return calls_; }
  [[nodiscard]] KnownNeighbors& neighbors() { return neighbors_; }

  [[nodiscard]] CommState* next_of() const { return next_; }  // in the list of all states

  // For a duplicate of this communicator.
  [[nodiscard]] CommState* derive();
  // Number of the persistent collective, initialized in the same order on all ranks.
  [[nodiscard]] std::uint64_t next_persistent() { return persistents_.fetch_add(1, std::memory_order_relaxed); }
  // State for that one, as of a duplicate: ranks may start persistent collectives in different orders.
  [[nodiscard]] CommState* derive_persistent(std::uint64_t ordinal);

  // Counters for the report; nullptr if there is none.
  [[nodiscard]] CommRecord* record() const;

  // Lives as long as the communicator or an operation needs it.
  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release();

 private:
  ~CommState() = default;

  GroupId id_;
  std::vector<WorldRank> members_;
  GroupRank me_;
  CommSwitch by_program_;
  GroupShape shape_;
  MPI_Comm comm_{};
  std::atomic<bool> freed_ = false;
  std::atomic<std::uint64_t> sequence_ = 0;
  std::atomic<std::uint64_t> dups_ = 0;
  std::atomic<std::uint64_t> persistents_ = 0;
  CommState* base_;  // with a reference
  std::atomic<steer::CollectiveBits> larger_blocks_ = 0;
  std::atomic<std::uint32_t> references_ = 1;
  std::shared_ptr<const client::Group> group_;
  std::atomic<const client::Group*> known_group_ = nullptr;  // group_, once it is made
  CommCalls calls_;
  client::NativeTally native_tally_;
  KnownNeighbors neighbors_;
  mutable std::atomic<CommRecord*> record_ = nullptr;
  CommState* previous_ = nullptr;  // list of all states
  CommState* next_ = nullptr;
};

// Makes the attribute and gives MPI_COMM_WORLD its state. Every rank calls it in MPI_Init.
[[nodiscard]] bool register_communicators(Job& job);
// Near the end: keeps the choices for all communicators' calls for the next run.
void keep_choices(const Job& job);
// Before MPI_Finalize: no state refers to the client any more, and no callback of ours runs afterwards.
void forget_communicators(Job& job);

// `comm`: valid, or MPI_COMM_NULL.
[[nodiscard]] bool is_intercommunicator(MPI_Comm comm);
// An intracommunicator of one rank, such as MPI_COMM_SELF and its duplicates, which have no state.
[[nodiscard]] bool is_group_of_one(MPI_Comm comm);

// Calls `visit` with each state of communicators and persistent collectives, under the lock of their list.
void each_state(const std::function<void(CommState&)>& visit);

// The state of a communicator; nullptr if it has none.
[[nodiscard]] CommState* state_of(const Job& job, MPI_Comm comm);

// During its life this thread's attribute copies belong to a duplicate by the program.
class DuplicateScope {
 public:
  explicit DuplicateScope(bool by_program);
  DuplicateScope(const DuplicateScope&) = delete;
  DuplicateScope& operator=(const DuplicateScope&) = delete;
  ~DuplicateScope();

 private:
  bool before_;
};

// After a blocking constructor other than dup. Collective over the new communicator (does nothing for the null one).
void adopt(Job& job, MPI_Comm comm);
// After dup_with_info: rank 0's info key `outrigger` (on, off) decides for the new communicator.
void apply_info(Job& job, MPI_Comm comm, MPI_Info info);
// Value of the info key: true is on.
[[nodiscard]] std::optional<bool> asked_by(MPI_Info info);

}  // namespace outrigger::mpi
