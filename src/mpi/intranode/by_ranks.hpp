// The entry points of blocking collectives (entry.hpp), which the ranks of a node may do by themselves.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "mpi/intranode/plain_calls.hpp"
#include "mpi/intranode/ranks_call.hpp"
#include "mpi/job/job.hpp"
#include "mpi/memory/accelerators.hpp"
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
  [[gnu::always_inline]] static int run(const CallSite& site, Words... words) {
    Job* const job = intranode_job();
    if (job == nullptr || site.inside_mpi()) return Handler::template run<call>(site, words...);
    const MPI_Comm comm = comm_of(words...);
    RankTeam* const team = team_of(*job, comm);
    if (team != nullptr && team->is_native()) return Handler::template run<call>(site, words...);
    RankTeam::LastCall* const last = last_like(team, std::array{words...});
    if (last != nullptr) {
      const RankTeam::Again again = team->begins_again(*last, observing());
      if (again.way == steer::Way::ranks) {
        if (const std::optional<int> code = perform<call>(*team, *last, again, comm)) return *code;
      }
      if (again.way) return Handler::template run<call>(site, words...);
    }
    return run_anew<call>(site, *job, team, last != nullptr, words...);
  }

 private:
  static constexpr BufferPlaces kBuffers = buffer_places(collective);

  template <Call call, class... Words>
  [[gnu::noinline]] static int run_anew(const CallSite& site, Job& job, RankTeam* team, bool again, Words... words) {
    const std::array all{words...};
    RanksCall ranks(job, collective, all, large_counts, team, again);
    if (ranks.by_ranks()) {
      if (const std::optional<int> code = ranks.perform()) return *code;
    }
    const int code = Handler::template run<call>(site, words...);
    ranks.ended();
    return code;
  }
  template <Call call>
  [[nodiscard]] static std::optional<int> perform(RankTeam& team, RankTeam::LastCall& last,
                                                  const RankTeam::Again& again, MPI_Comm comm) {
    if constexpr (has_plain_form(collective)) {
      return perform_again<collective>(team, last, again.entry, comm);
    } else {
      return std::nullopt;
    }
  }
  // The last call of this collective, if the words are its own but for buffers, which it takes over. nullptr: the call
  // needs another look.
  template <std::size_t count>
  [[nodiscard, gnu::always_inline]] static RankTeam::LastCall* last_like(RankTeam* team,
                                                                         const std::array<Word, count>& words) {
    RankTeam::LastCall* last = team != nullptr ? team->known_call(collective) : nullptr;
    // The unused half of an int's word may be anything, so calls of the other binding may have the same words.
    if (last == nullptr || last->arguments.large != large_counts) return nullptr;
    const Likeness likeness = likeness_of(words, last->words);
    if (has_lists(collective) && likeness != Likeness::none && !last->lists.are_unchanged()) return nullptr;
    if (likeness == Likeness::same) [[likely]]
      return kBuffers.has_any() && accelerator_loaded() ? nullptr : last;
    return likeness == Likeness::moved && takes_over(*last, words, team->rank()) ? last : nullptr;
  }

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
  [[nodiscard, gnu::always_inline]] static Likeness likeness_of(const std::array<Word, count>& words,
                                                                const std::array<Word, kept>& last) {
    if constexpr (count > kept) {
      return Likeness::none;
    } else {
      return likeness_of(words, last, std::make_index_sequence<count>());
    }
  }
  template <std::size_t count, std::size_t kept, std::size_t... places>
  [[nodiscard, gnu::always_inline]] static Likeness likeness_of(const std::array<Word, count>& words,
                                                                const std::array<Word, kept>& last,
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
