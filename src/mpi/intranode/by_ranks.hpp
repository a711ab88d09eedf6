// The entry points of blocking collectives (entry.hpp), which the ranks of a node may do by themselves.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

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
    RankTeam* team = team_of(*intranode_job(), comm_of(words...));
    RankTeam::LastCall* last = team != nullptr ? team->known_call(collective) : nullptr;
    // The unused half of an int's word may be anything, so calls of the other binding may have the same words.
    const bool may_be_like = last != nullptr && last->arguments.large == large_counts;
    const Likeness likeness = may_be_like ? likeness_of(all, last->words) : Likeness::none;
    const bool again =
        likeness == Likeness::same || (likeness == Likeness::moved && takes_over(*last, all, team->rank()));
    if (again && !observing() && team->passes(*last)) return Handler::template run<call>(site, words...);
    RanksCall ranks(*intranode_job(), collective, all, large_counts, team, again);
    if (ranks.by_ranks()) {
      if (const std::optional<int> code = ranks.perform()) return *code;
    }
    const int code = Handler::template run<call>(site, words...);
    ranks.ended();
    return code;
  }

 private:
  static constexpr BufferPlaces kBuffers = buffer_places(collective);

  template <class... Words>
  [[nodiscard]] static MPI_Comm comm_of(Words... words) {
    constexpr auto kComm = static_cast<std::size_t>(arguments_of(collective).comm);
    return argument<MPI_Comm>(std::array{words...}[kComm]);
  }
  template <class... Words>
  [[nodiscard]] static bool may_be_by_ranks(Words... words) {
    if (intranode_job() == nullptr) return false;
    const RankTeam* team = known_team(comm_of(words...));
    return team == nullptr || !team->is_native();
  }
  template <std::size_t count, std::size_t kept>
  [[nodiscard]] static Likeness likeness_of(const std::array<Word, count>& words, const std::array<Word, kept>& last) {
    if constexpr (count > kept) {
      return Likeness::none;
    } else {
      return likeness_of(words, last, std::make_index_sequence<count>());
    }
  }
  template <std::size_t count, std::size_t kept, std::size_t... places>
  [[nodiscard]] static Likeness likeness_of(const std::array<Word, count>& words, const std::array<Word, kept>& last,
                                            std::index_sequence<places...> /*all*/) {
    if ((... | (kBuffers.has(places) ? 0 : words[places] ^ last[places])) != 0) return Likeness::none;
    if ((... | (kBuffers.has(places) ? words[places] ^ last[places] : 0)) == 0) return Likeness::same;
    const auto may_move = [&](std::size_t i) {
      return words[i] == last[i] || (is_ordinary(words[i]) && is_ordinary(last[i]));
    };
    return (... && (!kBuffers.has(places) || may_move(places))) ? Likeness::moved : Likeness::none;
  }
};

}  // namespace outrigger::mpi
