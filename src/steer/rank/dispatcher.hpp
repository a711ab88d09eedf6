// Native or offloaded: the one place that decides it for the calls of one communicator, on each of its ranks. Rules
// come first, then the dispatch plan. The answer is the same on all ranks, as it uses only what all of them know alike.
//
// Answers are cached for as long as they last:
//   for good   a kind of call is native for ever; it is not even counted
//   run        ... as long as the plan stays unchanged; it is only counted (native_run.hpp)
// Calls of alike blocks have sizes, so decide() must see their arguments; again() knows the last arguments of each
// form.
//
// Thread rule: one thread at a time, as MPI has it for the calls of a communicator, but for what says otherwise.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "protocol/collective.hpp"
#include "protocol/options/selection.hpp"
#include "report/native_reason.hpp"
#include "steer/plan/decision.hpp"
#include "steer/plan/dispatch_plan.hpp"
#include "steer/rank/decision_file.hpp"
#include "steer/rank/dispatch_port.hpp"
#include "steer/rank/native_run.hpp"
#include "steer/rank/trial_runner.hpp"
#include "steer/rank/way.hpp"

namespace outrigger::steer {

using report::NativeReason;

// The same for all communicators of the job, and on all ranks but for the file.
struct DispatchSettings {
  const SelectionTable* table = nullptr;
  DecisionFile* decisions = nullptr;  // nullptr: nothing is measured
  bool early_trials = false;          // whatever they may cost
  bool native_at_first = false;       // calls that no rule decides, until trials show that service processes are better
};

// The program has switched off all communicators. Any thread.
inline constinit std::atomic<bool> everything_is_off = false;

struct Call {
  CollectiveForm form;
  std::optional<std::uint64_t> block_bytes;    // where MPI makes it equal on all ranks
  NativeReason obstacle = NativeReason::none;  // why such a call is native, whatever the communicator

  [[nodiscard]] CallKey key() const { return CallKey::of(form.collective, form.blocking, block_bytes); }
};

enum class Lasts : std::uint8_t { once, run, for_good };

struct Answer {
  Way way = Way::native;
  NativeReason reason = NativeReason::none;  // of native calls; none: no rule offloads this form
  Lasts lasts = Lasts::once;                 // of native calls
  bool by_plan = false;                      // offloaded, and no rule of the user's says so
  Algorithm algorithm = Algorithm::ring_pull;
  bool operator==(const Answer&) const = default;
};

class Dispatcher {
 public:
  // Makes the communicator known to the client, at the first call that needs it. nullptr: it cannot be now.
  using Open = std::function<const DispatchPort*()>;
  // `settings` must outlive this. `first`: this rank is the communicator's first one, which asks for trials.
  Dispatcher(const DispatchSettings& settings, const GroupShape& shape, bool first, bool off, Open open)
      : settings_(settings), shape_(shape), first_(first), open_(std::move(open)), off_(off) {}
  // The client goes away: nothing is counted or sent any more.
  void close();

  [[nodiscard]] Answer decide(const Call& call);

  // The program's arguments by which calls of a form are told apart: a count and handles.
  struct Arguments {
    std::uint64_t count = 0;
    std::uint64_t type = 0;       // 0: none
    std::uint64_t operation = 0;  // of a reduction
    bool operator==(const Arguments&) const = default;
  };
  // The cached answer for a call with the arguments of the last remember(). nullptr: decide() must be asked.
  [[nodiscard]] const Answer* again(CollectiveForm form, const Arguments& arguments) {
    const Remembered& last = remembered_[form.index()];
    if (arguments.type == 0 || last.arguments != arguments) return nullptr;
    return last.answer.lasts == Lasts::for_good || goes_on(form) ? &last.answer : nullptr;
  }
  // Caches an answer that lasts.
  void remember(CollectiveForm form, const Arguments& arguments, const Answer& answer) {
    remembered_[form.index()] = {arguments, answer};
  }
  // The same for a form without sizes. False: decide() must be asked.
  [[nodiscard]] bool goes_on(CollectiveForm form) { return !off() && count_in_run(form); }

  // Why the calls of the form's run, which goes on, are native.
  [[nodiscard]] NativeReason run_reason(CollectiveForm form) const { return runs_[form.index()].reason; }

  // Persistent collectives: rules decide once, and the plan at each start.
  [[nodiscard]] const Decision& by_table(const Call& call);
  // Nothing: starts may be offloaded.
  [[nodiscard]] std::optional<Answer> by_rules(const Call& call, const Decision& table);
  [[nodiscard]] Answer decide_start(CallKey key, const Decision& table);

  // The call is native for small blocks, of which this rank's largest has so many bytes.
  void note_largest_block(Collective collective, std::uint64_t bytes);
  // The program does something else with the communicator for a while.
  void interrupt() { trials_.interrupt(); }

  // Any thread. The program wants its calls native, on this communicator or on all.
  [[nodiscard]] bool off() const { return off_here() || everything_is_off.load(std::memory_order_relaxed); }
  [[nodiscard]] bool off_here() const { return off_.load(std::memory_order_relaxed); }
  void set_off(bool off) { off_.store(off, std::memory_order_relaxed); }
  // Any thread. Calls so far of which ranks must decide alike: the same on all that have come to the same call.
  [[nodiscard]] std::uint64_t calls() const;

  // Cached ones, as of the last call.
  [[nodiscard]] std::span<const CachedDecision> decisions() const { return plan_.after.decisions; }

 private:
  struct Run {
    NativeRun calls;
    CallKey key;
    NativeReason reason = NativeReason::measured_choice;  // of its calls
  };
  struct Remembered {
    Arguments arguments;
    Answer answer;
  };
  struct LookedUp {
    std::optional<std::uint64_t> block_bytes;
    Decision decision;
  };
  static constexpr std::uint32_t kFew = 32;

  // Counts the call in the form's run. True: the run goes on with it.
  [[nodiscard]] bool count_in_run(CollectiveForm form);
  [[nodiscard]] NativeReason reason_of_communicator() const;
  [[nodiscard]] Answer decide_ruled(CallKey key, const Decision& table, bool counted);
  [[nodiscard]] Answer decide_by_plan(CallKey key, const Decision& table, bool counted);
  // Counts the call, unless a run has. nullptr: the communicator has no plan.
  [[nodiscard]] const DispatchPlan* next_plan(bool counted);
  [[nodiscard]] const DispatchPort* port();
  [[nodiscard]] bool is_retired(CallKey key) const { return retired_[key.value] != NativeReason::none; }
  [[nodiscard]] Answer retire(CallKey key, NativeReason reason);
  // The answer of step and table, before what it starts.
  [[nodiscard]] Answer answer_to(const Step& step, const DispatchPlan& plan, CallKey key, const Answer& by_table) const;
  void begin_run(const DispatchPort& port, CallKey key, NativeReason reason);
  // Calls before the first that goes by the plan: a communicator with few native calls needs none.
  [[nodiscard]] bool too_few_to_steer() { return native_ < kFew && ++native_ < kFew; }

  const DispatchSettings& settings_;
  const GroupShape shape_;
  const bool first_;
  const Open open_;
  std::atomic<bool> off_;
  std::atomic<const DispatchPort*> port_ = nullptr;
  std::atomic<std::uint64_t> calls_without_plan_ = 0;  // switched off, or without an entry on this rank
  std::uint32_t changes_ = 0;                          // of the plan, when it was read
  PlanChange plan_;
  TrialRunner trials_;
  std::array<Run, CollectiveForm::kCount> runs_;
  std::array<Remembered, CollectiveForm::kCount> remembered_{};
  std::array<std::optional<LookedUp>, CollectiveForm::kCount> looked_up_{};  // in the table, for the last call
  std::array<NativeReason, CallKey::kCount> retired_{};                      // why native for good, or none
  CollectiveBits larger_blocks_ = 0;  // larger_blocks was sent after their last offloaded call
  std::uint32_t native_ = 0;          // calls before the first by the plan
  bool counted_ = false;              // the last run has counted the next call
  bool joined_ = false;               // the service process knows of the plan
};

}  // namespace outrigger::steer
