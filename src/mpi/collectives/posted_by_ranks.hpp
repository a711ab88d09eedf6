// The entry points of nonblocking collectives (entry.hpp), which the ranks of a node may do by themselves.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "mpi/intranode/rank_team.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/entry.hpp"
#include "protocol/collective_calls.hpp"

namespace outrigger::mpi {

// True: the ranks do the call, and its request is set. `words`: its arguments. Comes to the same on all ranks.
[[nodiscard]] bool post_by_ranks(Job& job, RankTeam& team, CollectiveCall call, std::span<const Word> words,
                                 bool large_counts);

// `Handler` does the call where ranks do not.
template <CollectiveCall collective, bool large_counts, class Handler>
struct PostedByRanks {
  template <Call call, class... Words>
  [[nodiscard]] static bool passes_at_once(Words... words) {
    return !may_be_by_ranks(words...) && ::outrigger::mpi::passes_at_once<call, Handler>(words...);
  }
  template <Call call, class... Words>
  static int run(const CallSite& site, Words... words) {
    Job* const job = current_job();
    if (job == nullptr || intranode_job() == nullptr || site.inside_mpi())
      return Handler::template run<call>(site, words...);
    const std::array all{words...};
    RankTeam* const team = team_of(*job, argument<MPI_Comm>(all[kComm]));
    if (team == nullptr || team->posts() == nullptr) return Handler::template run<call>(site, words...);
    if (post_by_ranks(*job, *team, collective, all, large_counts)) return MPI_SUCCESS;
    const int code = Handler::template run<call>(site, words...);
    if (code == MPI_SUCCESS) team->posts()->does_otherwise();
    return code;
  }

 private:
  static constexpr auto kComm = static_cast<std::size_t>(arguments_of(collective).comm);

  template <class... Words>
  [[nodiscard]] static bool may_be_by_ranks(Words... words) {
    if (intranode_job() == nullptr || current_job() == nullptr) return false;
    const RankTeam* team = known_team(argument<MPI_Comm>(std::array{words...}[kComm]));
    return team == nullptr || team->posts() != nullptr;
  }
};

}  // namespace outrigger::mpi
