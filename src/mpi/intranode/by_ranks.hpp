// The entry points of blocking collectives (entry.hpp), which the ranks of a node may do by themselves.
#pragma once

#include <array>
#include <cstddef>

#include "mpi/intranode/ranks_call.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/entry.hpp"
#include "protocol/collective_calls.hpp"

namespace outrigger::mpi {

// `Handler` does the call where ranks do not.
template <CollectiveCall collective, bool large_counts, class Handler>
struct ByRanks {
  template <Call call, class... Words>
  [[nodiscard]] static bool passes_at_once(Words... words) {
    return !may_be_by_ranks(words...) && ::outrigger::mpi::passes_at_once<call, Handler>(words...);
  }
  template <Call call, class... Words>
  static int run(const CallSite& site, Words... words) {
    if (!may_be_by_ranks(words...) || site.inside_mpi()) return Handler::template run<call>(site, words...);
    const std::array all{words...};
    RanksCall ranks(*intranode_job(), collective, all, large_counts);
    if (ranks.by_ranks()) return ranks.perform();
    const int code = Handler::template run<call>(site, words...);
    ranks.ended();
    return code;
  }

 private:
  template <class... Words>
  [[nodiscard]] static bool may_be_by_ranks(Words... words) {
    if (intranode_job() == nullptr) return false;
    constexpr auto kComm = static_cast<std::size_t>(arguments_of(collective).comm);
    const RankTeam* team = known_team(argument<MPI_Comm>(std::array{words...}[kComm]));
    return team == nullptr || !team->is_native();
  }
};

}  // namespace outrigger::mpi
