// The library's state of a communicator, attached as an attribute.
//
// Every rank of a communicator must give it the same GroupId without communication inside a nonblocking call:
//   MPI_COMM_WORLD          a constant
//   dup, idup, ...          mixed from the parent's id and the number of this dup of the parent: the attribute's
//                           copy callback runs on every rank for every dup, in the same order. It counts only inside
//                           the program's own calls (DuplicateScope): Open MPI also copies attributes for create_group,
//                           on its members alone
//   persistent collectives  mixed from their communicator's id and the how-manieth one on it this is
//   split, create, ...      mixed from the parent's id, how many such calls the parent has had, and the world rank of
//                           the new communicator's first rank: each rank of the parent makes each of these calls
//   other constructors      rank 0 of the new communicator broadcasts an id made of its world rank and a counter
// A communicator without the attribute (an intercommunicator, members outside the world) is native on all ranks.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "client/rank_endpoint.hpp"
#include "mpi/communicators/neighbors.hpp"
#include "mpi/native/abi.hpp"
#include "mpi/report/counting.hpp"
#include "protocol/ids.hpp"
#include "protocol/options/selection.hpp"
#include "steer/rank/dispatcher.hpp"

namespace outrigger::mpi {

struct Job;

namespace detail {
extern constinit std::atomic<std::uint64_t> freed_communicators;
}  // namespace detail
// When this number changes, values that a thread keeps by communicator handle are invalid: another communicator may
// have the handle. Counts communicators with a state or a record (report/comm_records.hpp).
[[nodiscard]] inline std::uint64_t freed_communicators() {
  return detail::freed_communicators.load(std::memory_order_seq_cst);
}
void note_freed_communicator();

class CommState {
 public:
  using Members = std::shared_ptr<const std::vector<WorldRank>>;

  // `base`: it is of one of that one's persistent collectives, and has no communicator of its own.
  CommState(const steer::DispatchSettings& settings, GroupId id, Members members, GroupRank me, bool off,
            const GroupShape& shape, CommState* base = nullptr);
  CommState(const CommState&) = delete;
  CommState& operator=(const CommState&) = delete;

  [[nodiscard]] GroupId id() const { return id_; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(members_->size()); }
  // The members, in the order of the communicator.
  [[nodiscard]] const std::vector<WorldRank>& world_ranks() const { return *members_; }
  [[nodiscard]] GroupRank me() const { return me_; }
  // For the selection table.
  [[nodiscard]] const GroupShape& shape() const { return shape_; }
  // Decides its calls. Changed by the program as switching.hpp says. Made at the first collective: some programs make
  // many communicators that see none.
  [[nodiscard]] steer::Dispatcher& dispatcher() {
    steer::Dispatcher* known = known_dispatcher();
    return known != nullptr ? *known : make_dispatcher();
  }
  [[nodiscard]] bool off_here() const {
    const steer::Dispatcher* known = known_dispatcher();
    return known != nullptr ? known->off_here() : off_at_first_;
  }
  [[nodiscard]] bool off() const { return off_here() || steer::everything_is_off.load(std::memory_order_relaxed); }
  // Any thread. The program does something else with the communicator for a while.
  void interrupt_trials() {
    if (steer::Dispatcher* known = known_dispatcher()) known->interrupt();
  }
  // A digest of all calls so far of which ranks must decide alike: the same on all that have come to the same place.
  // None of a communicator that has been freed, or of a persistent collective, which ranks may start in different
  // orders.
  [[nodiscard]] std::optional<std::uint64_t> place_in_calls() const;
  // A blocking call that the ranks, which are a team (mpi/intranode), do by themselves or natively.
  void count_call_of_team() {
    calls_of_team_.store(calls_of_team_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  // Numbers the offloaded collectives of this communicator, from 0, in the order in which they are posted.
  [[nodiscard]] std::uint64_t next_sequence() { return sequence_.fetch_add(1, std::memory_order_relaxed); }

  // A call is left to the MPI for its counts, and is not the first.
  void count_native_call() { native_tally_.count(); }
  // ... or is.
  void count_native_call(client::RankEndpoint& client);
  // Before the operation of that number is posted: how many such calls there have been since the one before it.
  [[nodiscard]] std::uint32_t take_native_calls(std::uint64_t sequence) { return native_tally_.post(sequence); }

  // The communicator's handle, for its error handler; the world's once the communicator has been freed.
  [[nodiscard]] MPI_Comm error_comm() const;
  void attached_to(MPI_Comm comm);
  [[nodiscard]] bool has_comm() const { return comm_ != MPI_Comm{}; }
  // The user has freed the communicator.
  void detached() { freed_.store(true, std::memory_order_release); }

  // The group as the client knows it, made at first use; null: none can be made.
  [[nodiscard]] const std::shared_ptr<const client::Group>& group(client::RankEndpoint& client);
  // Its first rank notes cached decisions for the next run.
  void note_decisions();
  // The client goes away; nothing is posted any more.
  void drop_group();

  [[nodiscard]] KnownNeighbors& neighbors() { return neighbors_; }

  [[nodiscard]] CommState* next_of() const { return next_; }  // in the list of all states

  // For a duplicate of this communicator.
  [[nodiscard]] CommState* derive();
  // All ranks of this communicator have made a part of it. For the id of that part, which `first_member` is in.
  [[nodiscard]] std::uint64_t next_part() { return parts_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] GroupId part_id(std::uint64_t ordinal, WorldRank first_member) const;
  // The how-manieth persistent collective is initialized, in the same order on all ranks.
  [[nodiscard]] std::uint64_t next_persistent() { return persistents_.fetch_add(1, std::memory_order_relaxed); }
  // State for that one, as of a duplicate: ranks may start persistent collectives in different orders.
  [[nodiscard]] CommState* derive_persistent(std::uint64_t ordinal);

  // Counters for the report; nullptr if there is none.
  [[nodiscard]] CommRecord* record() const;

  // Lives as long as the communicator or an operation needs it.
  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release();

 private:
  ~CommState() { delete known_dispatcher(); }

  // nullptr: there has been no collective.
  [[nodiscard]] steer::Dispatcher* known_dispatcher() const { return dispatcher_.load(std::memory_order_acquire); }
  steer::Dispatcher& make_dispatcher();

  GroupId id_;
  Members members_;  // shared with duplicates
  GroupRank me_;
  GroupShape shape_;
  MPI_Comm comm_{};
  std::atomic<bool> freed_ = false;
  std::atomic<std::uint64_t> sequence_ = 0;
  std::atomic<std::uint64_t> calls_of_team_ = 0;
  std::atomic<std::uint64_t> dups_ = 0;
  std::atomic<std::uint64_t> parts_ = 0;
  std::atomic<std::uint64_t> persistents_ = 0;
  CommState* base_;  // with a reference
  std::atomic<std::uint32_t> references_ = 1;
  std::shared_ptr<const client::Group> group_;
  std::atomic<const client::Group*> known_group_ = nullptr;  // it, once it is made
  const steer::DispatchSettings& settings_;
  const bool off_at_first_;
  std::atomic<steer::Dispatcher*> dispatcher_ = nullptr;  // owned
  client::NativeTally native_tally_;
  KnownNeighbors neighbors_;
  mutable std::atomic<CommRecord*> record_ = nullptr;
  CommState* previous_ = nullptr;  // list of all states
  CommState* next_ = nullptr;
};

// Makes the attribute and gives MPI_COMM_WORLD its state. Every rank calls it in MPI_Init.
[[nodiscard]] bool register_communicators(Job& job);
// Near the end: cached decisions of all communicators are kept for the next run.
void keep_decisions(const Job& job);
// Before MPI_Finalize: no state refers to the client any more, no callback of ours runs afterwards.
void forget_communicators(Job& job);

// `comm`: valid, or MPI_COMM_NULL.
[[nodiscard]] bool is_intercommunicator(MPI_Comm comm);
// An intracommunicator of one rank, such as MPI_COMM_SELF and its duplicates, which have no state.
[[nodiscard]] bool is_group_of_one(MPI_Comm comm);

// The members' ranks in our world, in the order of the communicator; empty when one is not in it.
[[nodiscard]] std::vector<WorldRank> world_ranks_of(const Job& job, MPI_Comm comm);

// Calls `visit` with each state, of communicators and persistent collectives, under the lock of their list.
void each_state(const std::function<void(CommState&)>& visit);

namespace detail {
// This thread's last communicator. Programs use few, again and again, and the MPI's look-up is slow and misses the
// cache. Invalid once any communicator has been freed.
struct KnownState {
  MPI_Comm comm{};
  CommState* state = nullptr;
  std::uint64_t freed = 0;  // freed_communicators() at the look-up
};
[[gnu::tls_model("initial-exec")]] extern constinit thread_local KnownState last_asked_for;
[[nodiscard]] CommState* find_state(const Job& job, MPI_Comm comm);
}  // namespace detail

// The state of a communicator; nullptr if it has none.
[[nodiscard, gnu::always_inline]] inline CommState* state_of(const Job& job, MPI_Comm comm) {
  // Freeing a communicator while another thread uses it is a program error, so this stays valid.
  const detail::KnownState& known = detail::last_asked_for;
  const bool is_known = known.state != nullptr && known.comm == comm && known.freed == freed_communicators();
  return is_known ? known.state : detail::find_state(job, comm);
}

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

// After a constructor that all ranks of `parent` have called. Local.
void adopt_part(Job& job, MPI_Comm comm, CommState& parent);
// After another blocking constructor than dup. Collective over the new communicator.
void adopt(Job& job, MPI_Comm comm);
// After dup_with_info: rank 0's info key `outrigger` (on, off) decides for the new communicator.
void apply_info(Job& job, MPI_Comm comm, MPI_Info info);
// Rank 0's value of the info key. Collective.
[[nodiscard]] std::optional<bool> agreed_choice(MPI_Comm comm, MPI_Info info);
// Value of the info key: true is on.
[[nodiscard]] std::optional<bool> asked_by(MPI_Info info);

}  // namespace outrigger::mpi
