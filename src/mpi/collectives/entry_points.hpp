// Common parts of the collectives' preload files. Each file describes its call's arguments and checks for those that
// the native MPI certainly rejects. The rest is here and in post.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <tuple>
#include <utility>

#include "mpi/collectives/arguments.hpp"
#include "mpi/collectives/known_native.hpp"
#include "mpi/collectives/largest_block.hpp"
#include "mpi/collectives/post.hpp"
#include "mpi/collectives/posted_by_ranks.hpp"
#include "mpi/completion/completion.hpp"
#include "mpi/completion/waiting.hpp"
#include "mpi/intranode/by_ranks.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/persistent/persistent.hpp"
#include "mpi/report/counted.hpp"
#include "mpi/report/report.hpp"

namespace outrigger::mpi {

// The entry points of a collective (entry.hpp). `offload` has the type bool(Job&, Form, its arguments...,
// MPI_Request*). It returns true if it has set the request. If it returns false, the native MPI does the call, or finds
// its error.
template <auto offload>
struct Nonblocking;
template <auto offload>
struct Blocking;
template <auto offload>
struct Persistent;

// True if the call is native for good; then counts it.
inline bool passes_counted(const ForGood& why) {
  if (why.comm == nullptr) return false;
  why.comm->count_native_call();
  if (observing()) count_native_for_good(*why.comm, why.reason);
  return true;
}

// Offloaded, or passed on.
template <class... Args, bool (*offload)(Job&, Form, Args...)>
struct Nonblocking<offload> {
  template <Call call>
  [[nodiscard]] static bool passes_at_once(WordFor<Args>... words) {
    CommState* comm = KnownNatives<Args...>::template find<call>(words...).comm;
    if (comm == nullptr) return false;
    comm->count_native_call();
    return true;
  }
  template <Call call>
  static int run(const CallSite& site, WordFor<Args>... words) {
    if (passes_counted(KnownNatives<Args...>::template find<call>(words...))) return site.pass(call, words...);
    Job* job = current_job();
    if (job == nullptr || site.inside_mpi()) return site.pass(call, words...);
    if (!offload_words<call>(*job, words...)) return site.pass(call, words...);
    if (job->cores != copy::RankCores::own) let_others_post();
    return MPI_SUCCESS;
  }

 private:
  template <Call call>
  [[nodiscard]] static bool offload_words(Job& job, WordFor<Args>... words) {
    if constexpr (KnownNatives<Args...>::kMayBeKept) {
      constexpr std::size_t kCompared = sizeof...(Args) - 1;  // the last is the request
      const std::array<Word, sizeof...(Args)> all{words...};
      auto* const request = argument<MPI_Request*>(all[kCompared]);
      CallWords described{call, freed_communicators(), {}};
      std::copy_n(all.begin(), kCompared, described.words.begin());
      const Again again = offload_again(job, described, request);
      if (again != Again::unknown) return again == Again::offloaded;
      if (!offload_anew<call>(job, words...)) return false;
      note_described(described, *request);
      return true;
    } else {
      return offload_anew<call>(job, words...);
    }
  }
  template <Call call>
  [[nodiscard]] static bool offload_anew(Job& job, WordFor<Args>... words) {
    forget_for_good();
    if (offload(job, Form::nonblocking, argument<Args>(words)...)) return true;
    KnownNatives<Args...>::template keep<call>(found_for_good(), words...);
    return false;
  }
};

// As the nonblocking form, and then waits. Calls that are not offloaded are passed on.
template <class... Args, bool (*offload)(Job&, Form, Args...)>
struct Blocking<offload> {
  // Calls that are counted must be the program's own: the MPI's may not be alike on all ranks.
  template <Call call, class... Words>
  [[nodiscard]] static bool passes_at_once(Words... /*words*/) {
    const Job* job = current_job();
    return job == nullptr || !job->config.blocking;
  }
  template <Call call, class... Words>
  static int run(const CallSite& site, Words... words) {
    Job* job = current_job();
    if (job == nullptr || !job->config.blocking || site.inside_mpi()) return site.pass(call, words...);
    if (passes_counted(find<call>(words..., kNoRequest))) return site.pass(call, words...);
    MPI_Request request = constants().request_null;
    forget_for_good();
    if (offload_words(*job, words..., reinterpret_cast<Word>(&request))) return wait_for(*job, &request);
    keep<call>(words..., kNoRequest);
    return site.pass(call, words...);
  }

 private:
  static constexpr Word kNoRequest = 0;

  static bool offload_words(Job& job, WordFor<Args>... words) {
    return offload(job, Form::blocking, argument<Args>(words)...);
  }
  template <Call call>
  static ForGood find(WordFor<Args>... words) {
    return KnownNatives<Args...>::template find<call>(words...);
  }
  template <Call call>
  static void keep(WordFor<Args>... words) {
    KnownNatives<Args...>::template keep<call>(found_for_good(), words...);
  }
};

// The MPI makes the request, and starts it if the start is native. If not, the service processes do the operation that
// `offload` has described.
template <class... Args, bool (*offload)(Job&, Form, Args...)>
struct Persistent<offload> {
  template <Call call, class... Words>
  static int run(const CallSite& site, Words... words) {
    const int code = site.pass(call, words...);
    Job* job = current_job();
    if (code != MPI_SUCCESS || job == nullptr || site.inside_mpi()) return code;
    describe(*job, std::array<Word, sizeof...(Words)>{words...}, std::make_index_sequence<sizeof...(Args) - 1>());
    return code;
  }

 private:
  // All arguments but the last two, which are info and request, are those of the other forms.
  template <std::size_t count, std::size_t... places>
  static void describe(Job& job, const std::array<Word, count>& words, std::index_sequence<places...> /*all*/) {
    static_assert(count == sizeof...(places) + 2);
    auto* request = argument<MPI_Request*>(words[count - 1]);
    static_cast<void>(offload(job, Form::persistent,
                              argument<std::tuple_element_t<places, std::tuple<Args...>>>(words[places])..., request));
  }
};

// As above, counted for the report.
template <CollectiveCall call, auto offload, Counts counts = Counts::int_sized>
using CountedNonblocking =
    Counted<call, CallForm::nonblocking, counts, PostedByRanks<call, counts == Counts::large, Nonblocking<offload>>>;
template <CollectiveCall call, auto offload, Counts counts = Counts::int_sized>
using CountedBlocking =
    Counted<call, CallForm::blocking, counts, ByRanks<call, counts == Counts::large, Blocking<offload>>>;
template <CollectiveCall call, auto offload, Counts counts = Counts::int_sized>
using CountedPersistent = Counted<call, CallForm::persistent, counts, Persistent<offload>>;

// True if `rank`, a call's root, is a rank of the communicator.
[[nodiscard]] inline bool is_rank_of(const CommState& comm, int rank) {
  return rank >= 0 && static_cast<std::uint32_t>(rank) < comm.size();
}

// Counts the call as native for its arguments. Always false.
inline bool decline() {
  if (observing()) count_native(NativeReason::invalid_arguments);
  return false;
}

// True if a call with `count` elements of the type is known to be native whatever its other arguments are. For calls
// with the same blocks on all ranks. `operation`: the key of a reduction's operation.
template <class Count>
[[nodiscard, gnu::always_inline]] inline bool passes(const Job& job, steer::CollectiveForm form, MPI_Comm comm,
                                                     Count count, MPI_Datatype type, std::uint64_t operation = 0) {
  CommState* state = state_of(job, comm);
  if (state == nullptr) return false;
  const steer::Answer* native =
      state->dispatcher().again(form, {static_cast<std::uint64_t>(count), handle_key(type), operation});
  if (native == nullptr) return false;
  if (native->lasts == steer::Lasts::for_good) find_for_good(*state, native->reason);
  return passes_counted({state, native->reason});
}
// Remembers the answer for passes(), as long as it is valid. Always false.
template <class Count>
bool pass_on(const Offload& offload, steer::CollectiveForm form, Count count, MPI_Datatype type, const TypeShape& shape,
             std::uint64_t operation = 0) {
  const steer::Answer& native = offload.answer;
  if (offload.native_on == nullptr || native.lasts == steer::Lasts::once || !shape.predefined) return false;
  offload.native_on->dispatcher().remember(form, {static_cast<std::uint64_t>(count), handle_key(type), operation},
                                           native);
  if (native.lasts == steer::Lasts::for_good) find_for_good(*offload.native_on, native.reason);
  return false;
}

// A blank operation of this collective.
[[nodiscard]] inline Operation& new_operation(Collective collective, const Offload& offload, bool in_place) {
  Operation& operation = *make_operation();
  operation.asked.collective = collective;
  operation.comm = offload.comm;
  operation.asked.algorithm = offload.answer.algorithm;
  operation.asked.by_plan = offload.answer.by_plan;
  operation.block_bytes = offload.block_bytes;
  operation.in_place = in_place;
  return operation;
}

// The last step: hands it over, or keeps it for MPI_Start. Always true.
[[gnu::always_inline]] inline bool offload_operation(Job& job, CallTimer& timer, const Offload& offload,
                                                     Operation& operation, MPI_Request* request) {
  if (offload.starts) return keep_for_starts(*offload.starts, operation, *request);
  timer.belongs_to(operation);
  post_operation(job, operation);
  *request = operation.request;
  return true;
}

}  // namespace outrigger::mpi
