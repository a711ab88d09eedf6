// What the starting calls of all collectives have in common: offload or native, direct or staged, hand over.
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

namespace outrigger::mpi {

struct Job;

enum class Form : std::uint8_t { nonblocking, blocking, persistent };

[[nodiscard]] constexpr steer::CollectiveForm form_of(Collective collective, Form form) {
  return {collective, form == Form::blocking};
}

// How a call is offloaded.
struct Offload {
  CommState* comm = nullptr;  // null: not at all
  Algorithm algorithm = Algorithm::ring_pull;
  bool by_plan = false;                   // the communicator's course has been asked
  CommState* for_small_blocks = nullptr;  // where it is native for these, which its sizes may show to be wrong
  CommState* for_good = nullptr;          // where it is native for ever, and the course need not count it
  CommState* for_a_spell = nullptr;       // ... or for a while, in which it does nothing but count
  report::NativeReason reason = report::NativeReason::none;  // ... why
  // Of a persistent form: it is decided at each start, by what is known here.
  struct Starts {
    steer::CallKey key;
    Decision table;
    std::uint64_t ordinal = 0;  // among the communicator's persistent collectives
  };
  std::optional<Starts> starts = std::nullopt;
};

// Where the call stays native, the reason is counted, but of blocking forms that are native unless asked for. Uses only
// what all ranks of the communicator know alike. `block_bytes`: where MPI makes it equal on all ranks. `counted`: a
// spell (below) has counted the call. `obstacle`: why such a call is native, whatever the communicator, if it is;
// rounding is none where a rule of the user's decides.
[[nodiscard]] Offload offload_on(const Job& job, Form form, MPI_Comm comm, Collective collective,
                                 const std::optional<std::uint64_t>& block_bytes, bool counted = false,
                                 report::NativeReason obstacle = report::NativeReason::none);

// A call that is native for good. None: nobody has asked for its form to be offloaded.
void count_native_for_good(CommState& comm, report::NativeReason reason);

// A call that passed in the form's spell last: the spell counts it, and goes on.
[[nodiscard]] inline bool goes_on_in_spell(CommState& comm, steer::CollectiveForm form) {
  if (comm.by_program().off()) return false;
  const steer::NativeRun::Call call = comm.calls().spell(form).next();
  if (call.counted && !call.native) comm.calls().note_counted();
  return call.native;
}

// A call of which sizes say nothing. Native: as the ones before it, and nothing else need be looked at.
[[nodiscard]] inline steer::NativeRun::Call goes_on_natively(const Job& job, Collective collective, Form form,
                                                             MPI_Comm comm) {
  CommState* state = form == Form::persistent ? nullptr : state_of(job, comm);
  if (state == nullptr || state->by_program().off()) return {};
  const steer::NativeRun::Call call = state->calls().spell(form_of(collective, form)).next();
  if (call.native && observing()) [[unlikely]] {
    count_native(state->calls().spell_reason(form_of(collective, form)));
  }
  return call;
}

// With comm, collective, algorithm, receive and (unless in place) send filled in. Makes the request.
void post_operation(Job& job, Operation& operation);

}  // namespace outrigger::mpi
