// A communicator's team (src/intranode): its ranks share memory and do blocking collectives by themselves. Also decides
// which calls the team does. It is an attribute of the communicator.
//
// Nothing is set up for communicators with few calls. Every rank counts the program's blocking collectives on the
// communicator; in the 16th, where all its members are, they meet:
//
//     PMPI_Allgather        where each of them is; the first also where its memory for the team is
//     PMPI_Allreduce (min)  have all of them mapped it?
//
// If they have, they are a team. Otherwise the communicator is native for ever. It is so without asking anybody where
// members are on several nodes or outside of our world, and for intercommunicators.
//
// Thread rule: one thread at a time for a communicator, as MPI has it for its collectives.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "intranode/team.hpp"
#include "mpi/communicators/comm_state.hpp"
#include "mpi/intranode/team_arguments.hpp"
#include "mpi/native/abi.hpp"
#include "protocol/collective_calls.hpp"
#include "protocol/reduction.hpp"
#include "steer/rank/turns_trial.hpp"

namespace outrigger::mpi {

struct Job;
class RankWaiter;

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
    TeamCallKey key;
    steer::TurnsTrial trial;
  };
  [[nodiscard]] Kind* kind_of(const TeamCallKey& key);
  // After the last call of a trial, before the next call of that kind: the ranks judge it.
  void judge(steer::TurnsTrial& trial);

  // The last call of a collective. The next one is often the same but for its buffers.
  struct LastCall {
    bool known = false;  // such calls need no other look
    std::array<Word, 8> words{};
    TeamArguments arguments;
    Kind* kind = nullptr;
    CommState* state = nullptr;  // in a job with service processes
  };
  [[nodiscard]] LastCall& last_call(CollectiveCall call) {
    std::unique_ptr<LastCall>& last = last_calls_[static_cast<std::size_t>(call)];
    if (last == nullptr) [[unlikely]]
      last = std::make_unique<LastCall>();
    return *last;
  }

  [[nodiscard]] intranode::Team& team() { return *team_; }
  // For the first so many members; the order of the operation must not show.
  [[nodiscard]] const intranode::Combine& combine(const Reduction& reduction, std::uint32_t members);
  // Memory of this thread's call, for as many bytes, and what was asked for before in it: `which` is 0 or 1.
  [[nodiscard]] std::byte* scratch(std::size_t which, std::size_t bytes);
  void give_back_scratch();
  // Lists for intranode::Blocks.
  struct Lists {
    std::vector<std::uint64_t> bytes;
    std::vector<std::uint64_t> offsets;
  };
  [[nodiscard]] Lists& lists(std::size_t which) { return lists_[which]; }
  // The call that messages about long waits name.
  void enters(CollectiveCall call);

 private:
  static constexpr std::size_t kMostKinds = 256;  // more are native

  void set_up(Job& job, MPI_Comm comm);
  [[nodiscard]] bool may_meet(const Job& job, MPI_Comm comm) const;

  std::uint32_t rank_;
  std::uint32_t size_;
  std::atomic<bool> native_ = false;
  std::uint32_t set_up_at_;
  std::uint32_t calls_ = 0;
  std::unique_ptr<RankWaiter> waiter_;
  std::optional<intranode::Team> team_;
  std::vector<std::unique_ptr<Kind>> kinds_;
  std::array<std::unique_ptr<LastCall>, kCollectiveCalls> last_calls_;
  struct KnownCombine {
    Reduction reduction;
    std::uint32_t members;
    std::unique_ptr<const intranode::Combine> combine;
  };
  std::vector<KnownCombine> combines_;
  std::vector<steer::TurnTimes> times_;
  std::array<std::vector<std::byte>, 2> scratch_;
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
[[nodiscard]] inline RankTeam* known_team(MPI_Comm comm) {
  const detail::KnownTeam& known = detail::known_team;
  return known.comm == comm && known.freed == freed_communicators() ? known.team : nullptr;
}

// Made when it is first asked for. nullptr: it can have none.
[[nodiscard]] inline RankTeam* team_of(const Job& job, MPI_Comm comm) {
  RankTeam* team = known_team(comm);
  return team != nullptr ? team : detail::look_up_team(job, comm);
}

}  // namespace outrigger::mpi
