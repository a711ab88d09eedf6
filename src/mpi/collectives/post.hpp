// The steps of all collectives' starting calls: offload or native, direct or staged, hand over.
#pragma once

#include <optional>

#include "mpi/collectives/offloaded_collective.hpp"
#include "mpi/communicators/comm_state.hpp"
#include "mpi/native/abi.hpp"
#include "mpi/report/report.hpp"
#include "protocol/collective.hpp"
#include "protocol/options/selection.hpp"
#include "report/ledger.hpp"
#include "steer/plan/decision.hpp"
#include "steer/rank/dispatcher.hpp"

namespace outrigger::mpi {

struct Job;

enum class Form : std::uint8_t { nonblocking, blocking, persistent };

[[nodiscard]] constexpr steer::CollectiveForm form_of(Collective collective, Form form) {
  return {collective, form == Form::blocking};
}

// The answer to a call, and where it belongs.
struct Offload {
  CommState* comm = nullptr;       // of an offloaded call
  CommState* native_on = nullptr;  // of a native one; nullptr: the library does not know the communicator
  steer::Answer answer;
  // A persistent form is decided at each start, by these.
  struct Starts {
    steer::CallKey key;
    Decision table;
    std::uint64_t ordinal = 0;  // among the communicator's persistent collectives
  };
  std::optional<Starts> starts = std::nullopt;
  std::optional<std::uint64_t> block_bytes = std::nullopt;  // by which it was decided

  // The communicator, where sizes that are not alike on all ranks may show that blocks are not small.
  [[nodiscard]] CommState* for_small_blocks() const {
    return answer.reason == report::NativeReason::small_blocks ? native_on : nullptr;
  }
};

// Where the call stays native, the reason is counted. `block_bytes`: where MPI makes it equal on all ranks. `obstacle`:
// why such a call is native, whatever the communicator, if it is; rounding is none where a rule of the user's decides.
[[nodiscard]] Offload offload_on(const Job& job, Form form, MPI_Comm comm, Collective collective,
                                 const std::optional<std::uint64_t>& block_bytes,
                                 report::NativeReason obstacle = report::NativeReason::none);
// A nonblocking call with the words of one that has described an operation: only its way is decided anew.
enum class Again : std::uint8_t { unknown, native, offloaded };
[[nodiscard]] Again offload_again(Job& job, const CallWords& words, MPI_Request* request);
// The request is of a call with these words, which was offloaded.
void note_described(const CallWords& words, MPI_Request request);

// The same for a persistent collective's start.
[[nodiscard]] steer::Answer decide_start(const Job& job, CommState& comm, steer::CallKey key, const Decision& table);

// Counts a call that is native for good. `none`: no rule offloads its form.
void count_native_for_good(CommState& comm, report::NativeReason reason);

// A call of which sizes say nothing: it is native as the ones before it, and nothing else need be looked at.
[[nodiscard]] inline bool goes_on_natively(const Job& job, Collective collective, Form form, MPI_Comm comm) {
  CommState* state = form == Form::persistent ? nullptr : state_of(job, comm);
  if (state == nullptr || !state->dispatcher().goes_on(form_of(collective, form))) return false;
  if (observing()) [[unlikely]] {
    count_native(state->dispatcher().run_reason(form_of(collective, form)));
  }
  return true;
}

// With comm, collective, algorithm, receive and (unless in place) send filled in. Makes the request.
void post_operation(Job& job, Operation& operation);

}  // namespace outrigger::mpi
