// A communicator's team (src/intranode): its ranks share memory and do blocking collectives by themselves. If they are
// on several nodes, each node has a team, and all together are a NodesTeam. Also decides which calls the team does. It
// is an attribute of the communicator.
//
// Nothing is set up for communicators with few calls. Every rank counts the program's blocking collectives on the
// communicator; in the 16th, where all its members are, they meet:
//
//     PMPI_Allgather        where each of them is; the first of a node also where its memory for the team is
//     PMPI_Comm_split       on several nodes: the communicator of the first ranks of the nodes
//     PMPI_Allreduce (min)  have all of them mapped it?
//
// If they have, they are a team. Otherwise the communicator is native for ever. It is so without asking anybody where
// each member is alone on its node, where members are outside of our world, and for intercommunicators.
//
// Thread rule: one thread at a time for a communicator, as MPI has it for its collectives.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "intranode/peer_memory.hpp"
#include "intranode/sums/order_table.hpp"
#include "intranode/team.hpp"
#include "mpi/communicators/comm_state.hpp"
#include "mpi/communicators/neighbors.hpp"
#include "mpi/intranode/kept_lists.hpp"
#include "mpi/intranode/nodes_team.hpp"
#include "mpi/intranode/rank_waiter.hpp"
#include "mpi/intranode/scratch_memory.hpp"
#include "mpi/intranode/team_arguments.hpp"
#include "mpi/intranode/team_orders.hpp"
#include "mpi/intranode/team_posts.hpp"
#include "mpi/native/abi.hpp"
#include "protocol/collective_calls.hpp"
#include "protocol/reduction.hpp"
#include "steer/rank/turns_trial.hpp"

namespace outrigger::mpi {

struct Job;

class RankTeam {
 public:
  // They meet in the call of this number, from 1.
  RankTeam(std::uint32_t rank, std::uint32_t size, std::uint32_t set_up_at);
  RankTeam(const RankTeam&) = delete;
  RankTeam& operator=(const RankTeam&) = delete;
  ~RankTeam();

  [[nodiscard]] std::uint32_t rank() const { return rank_; }
  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] TeamPlace place() const { return {rank_, size_}; }
  // The communicator's calls are the MPI's, whatever they are.
  [[nodiscard]] bool is_native() const { return native_.load(std::memory_order_relaxed); }
  void stay_native() { native_.store(true, std::memory_order_relaxed); }

  // The program has switched the library off for the communicator, or on again, in a job without service processes.
  [[nodiscard]] bool is_off() const { return off_; }
  void set_off(bool off) { off_ = off; }

  // A call of the program that the MPI does not refuse. False: the ranks are no team, or not yet.
  [[nodiscard]] bool joins(Job& job, MPI_Comm comm) {
    if (team_) [[likely]]
      return true;
    if (is_native() || ++calls_ < set_up_at_) return false;
    set_up(job, comm);
    return team_.has_value();
  }

  // The ranks are a team.
  [[nodiscard]] bool is_ready() const { return team_.has_value(); }
  // How the team does calls of one kind. kind_of() returns nullptr if there are too many kinds: native.
  struct Kind {
    Kind(const TeamCallKey& its_key, const steer::TurnsTrial::Options& options) : key(its_key), trial(options) {}
    TeamCallKey key;
    steer::TurnsTrial trial;
  };
  [[nodiscard]] Kind* kind_of(const TeamCallKey& key, CollectiveCall call);
  // After the last call of a trial, before the next call of that kind: the ranks judge it. False: fail().
  [[nodiscard]] bool judge(steer::TurnsTrial& trial);

  // The last call of a collective. The next one is often the same but for its buffers.
  struct LastCall {
    bool known = false;      // such calls need no other look
    bool has_words = false;  // `words` and `lists` are the last call's
    intranode::CallWord said;
    std::array<Word, 9> words{};
    TeamArguments arguments;
    KeptLists lists;
    Kind* kind = nullptr;
    // A trial decides the way. Otherwise ranks do the call.
    bool takes_turns = false;
    // The reduction needs the MPI's order, which is there.
    bool needs_order = false;
    intranode::OrderTable::Place order;
    // The team takes the buffers as they are. With lists or neighbors it takes these blocks of them.
    std::optional<PlainBytes> plain;
    KeptBlocks from, into;
    // Where has_seen_sizes(): of the last call by ranks, rounded up to a power of two.
    std::uint64_t seen_bytes = 0;
    // The communicator's, in a job with service processes.
    CommState* state = nullptr;

    [[nodiscard]] bool is_off() const { return state != nullptr && state->off(); }
  };
  [[nodiscard]] LastCall& last_call(CollectiveCall call) {
    std::unique_ptr<LastCall>& last = last_calls_[static_cast<std::size_t>(call)];
    if (last == nullptr) [[unlikely]]
      last = std::make_unique<LastCall>();
    return *last;
  }

  // Ranks have done such a call, where has_seen_sizes(). If its size is another one, the next call needs a look.
  void see_sizes(LastCall& last) {
    const std::uint64_t bytes = std::bit_ceil(team_->longest());
    if (bytes == last.seen_bytes || !last.takes_turns) [[likely]]
      return;
    last.seen_bytes = bytes;
    last.known = false;
  }

  // The last call of that collective, if such calls need no other look.
  [[nodiscard]] LastCall* known_call(CollectiveCall call) const {
    LastCall* last = last_calls_[static_cast<std::size_t>(call)].get();
    return last != nullptr && last->known ? last : nullptr;
  }
  // How a call is done that is like the last one.
  struct Again {
    std::optional<steer::Way> way;                  // nothing: it needs another look
    intranode::OrderTable::Entry* entry = nullptr;  // by ranks: of the MPI's order, if it matters
  };
  // Where there is a way, the call takes its turns, and begins. `explained`: why calls are native is wanted.
  [[nodiscard]] Again begins_again(LastCall& last, bool explained) {
    const Again again = way_again(last);
    if (!again.way || (*again.way == steer::Way::native ? explained : !last.plain)) return {};
    if (last.needs_order) orders_->table().count_at(last.order);
    if (last.takes_turns && (again.entry != nullptr || !last.needs_order)) {
      copy_by_slots(last.kind->trial.by_slots());
      last.kind->trial.take();
    }
    begins(last.said, *again.way == steer::Way::ranks);
    if (last.state != nullptr) last.state->count_call_of_team();
    return again;
  }

  // Do the next calls copy long blocks through slots? Otherwise directly.
  void copy_by_slots(bool slots) { team_->copy_directly_from(slots ? UINT64_MAX : intranode::kDirectBytes); }
  // The team of this node's ranks.
  [[nodiscard]] intranode::Team& team() { return *team_; }
  // nullptr: all ranks are on one node.
  [[nodiscard]] NodesTeam* nodes() { return nodes_.get(); }
  // For nonblocking calls; nullptr: these are not by ranks.
  [[nodiscard]] TeamPosts* posts() const { return posts_.get(); }
  // False: such calls are native.
  [[nodiscard]] bool takes(const TeamArguments& arguments) const;
  // The orders of reductions whose bits depend on them.
  [[nodiscard]] TeamOrders& orders() { return *orders_; }
  // 0, 1, 2 and so on: of the first so many members.
  [[nodiscard]] const intranode::SumOrder& rank_order(std::uint32_t members);
  // Memory of this thread's call, for as many bytes, and what was asked for before in it: `which` is 0 or 1.
  [[nodiscard]] std::byte* scratch(std::size_t which, std::size_t bytes) { return scratch_[which].take(bytes); }
  void give_back_scratch() {
    for (ScratchMemory& memory : scratch_) memory.give_back();
  }
  // Lists for intranode::Blocks.
  struct Lists {
    std::vector<std::uint64_t> bytes;
    std::vector<std::uint64_t> offsets;
  };
  [[nodiscard]] Lists& lists(std::size_t which) { return lists_[which]; }
  [[nodiscard]] KnownNeighbors& neighbors() { return neighbors_; }
  // Before each blocking collective of the program on the communicator, once the ranks are a team: what this rank is
  // about to do. Ranks that wait for it in vain look at that.
  void begins(intranode::CallWord call, bool by_ranks) {
    doing_->store(call.tagged(++begun_).by_ranks(by_ranks).word(), std::memory_order_release);
    if (by_ranks) waiter_->enters();
  }
  // The team's operation has ended badly. The communicator is native from now on. Returns the MPI error code.
  [[nodiscard]] int fail(MPI_Comm comm, CollectiveCall call);

 private:
  static constexpr std::size_t kMostKinds = 256;  // more are native

  void set_up(Job& job, MPI_Comm comm);
  [[nodiscard]] bool may_run_ahead(const TeamCallKey& key, CollectiveCall call) const;
  [[nodiscard]] bool has_two_ways(const TeamCallKey& key, CollectiveCall call) const;
  // As RanksCall decides it, where nothing is due.
  [[nodiscard]] Again way_again(const LastCall& last) const {
    if (off_ || last.is_off()) return {};
    if (last.kind == nullptr) return {steer::Way::native};
    intranode::OrderTable::Entry* entry = nullptr;
    if (last.needs_order) {
      entry = orders_->table().again_at(last.order);
      if (entry == nullptr) return {};
      if (!entry->order) return {steer::Way::native};
    }
    if (!last.takes_turns) return {steer::Way::ranks, entry};
    if (!last.kind->trial.is_quiet()) return {};
    return {last.kind->trial.way(), entry};
  }
  [[nodiscard]] std::optional<NodesMap> map_of(const Job& job, MPI_Comm comm) const;
  [[nodiscard]] bool gather_times(const steer::TurnTimes& mine);

  std::uint32_t rank_;
  std::uint32_t size_;
  std::atomic<bool> native_ = false;
  std::uint32_t set_up_at_;
  std::uint32_t calls_ = 0;
  bool off_ = false;
  bool shares_core_ = false;
  std::unique_ptr<RankWaiter> waiter_;
  std::unique_ptr<intranode::CrossMemory> memory_;
  std::optional<intranode::Team> team_;
  std::unique_ptr<NodesTeam> nodes_;
  std::unique_ptr<TeamPosts> posts_;
  std::uint32_t begun_ = 0;                      // calls
  std::atomic<std::uint64_t>* doing_ = nullptr;  // this rank's word in the team's memory
  std::vector<std::unique_ptr<Kind>> kinds_;
  std::array<std::unique_ptr<LastCall>, kCollectiveCalls> last_calls_;
  KnownNeighbors neighbors_;
  std::unique_ptr<TeamOrders> orders_;
  std::array<std::unique_ptr<const intranode::SumOrder>, intranode::kMostMembers + 1> rank_orders_;
  std::vector<steer::TurnTimes> times_;
  std::array<ScratchMemory, 2> scratch_;
  std::array<Lists, 2> lists_;
};

// Makes the attribute. False: the MPI gives out none.
[[nodiscard]] bool register_teams(Job& job);
// Before MPI_Finalize, or in a job that has none.
void forget_teams(Job& job);

namespace detail {
struct KnownTeam {
  MPI_Comm comm{};
  RankTeam* team = nullptr;
  std::uint64_t freed = 0;  // communicators, when it was looked up
};
[[gnu::tls_model("initial-exec")]] extern constinit thread_local KnownTeam known_team;
[[nodiscard]] RankTeam* look_up_team(const Job& job, MPI_Comm comm);
}  // namespace detail

// The communicator that this thread has asked for last; nullptr: it was another.
[[nodiscard, gnu::always_inline]] inline RankTeam* known_team(MPI_Comm comm) {
  const detail::KnownTeam& known = detail::known_team;
  return known.comm == comm && known.freed == freed_communicators() ? known.team : nullptr;
}

// Made when it is first asked for. nullptr: it can have none.
[[nodiscard, gnu::always_inline]] inline RankTeam* team_of(const Job& job, MPI_Comm comm) {
  RankTeam* team = known_team(comm);
  return team != nullptr ? team : detail::look_up_team(job, comm);
}

}  // namespace outrigger::mpi
