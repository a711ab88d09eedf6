// How the calls of one communicator go by its course (steer/plan/dispatch_plan.hpp), on this rank.
//
// Thread rule: one thread at a time, as MPI has it for the calls of a communicator.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "client/client.hpp"
#include "protocol/collective.hpp"
#include "protocol/options/selection.hpp"
#include "report/ledger.hpp"
#include "steer/plan/decision.hpp"
#include "steer/rank/decision_file.hpp"
#include "steer/rank/native_run.hpp"
#include "steer/rank/plan_cursor.hpp"
#include "steer/rank/trial_clock.hpp"
#include "steer/rank/trial_cost.hpp"
#include "steer/rank/trial_pace.hpp"

namespace outrigger::mpi {

class CommCalls {
 public:
  // Why it is native for good: need not be steered. `none`: it is not.
  [[nodiscard]] report::NativeReason retired(steer::CallKey key) const {
    if (!retired_.test(key.value)) return report::NativeReason::none;
    return small_.test(key.value) ? report::NativeReason::small_blocks : report::NativeReason::measured_choice;
  }
  // Blocks are small, or a trial has shown it.
  void retire_small(steer::CallKey key) {
    small_.set(key.value);
    retired_.set(key.value);
  }
  void retire(steer::CallKey key) { retired_.set(key.value); }
  // The same, of as many elements of a predefined type as the last such call of its kind: with such arguments nothing
  // else need be looked at, as the reason is known, too.
  struct Arguments {
    std::uint64_t count = 0;
    std::uint64_t type = 0;       // its handle; 0: none has passed
    std::uint64_t operation = 0;  // a reduction's handle
    bool operator==(const Arguments&) const = default;
  };
  struct Passed {
    Arguments arguments;
    report::NativeReason reason = report::NativeReason::none;
    bool for_good = false;  // else as long as the form's spell lasts
  };
  // nullptr: it is not known.
  [[nodiscard]] const Passed* passes(steer::CollectiveForm form, const Arguments& arguments) const {
    const Passed& last = passed_[form.index()];
    return arguments.type != 0 && last.arguments == arguments ? &last : nullptr;
  }
  void let_pass(steer::CollectiveForm form, const Passed& passed) { passed_[form.index()] = passed; }

  // Of calls of which sizes say nothing, or of those that pass.
  [[nodiscard]] steer::NativeRun& spell(steer::CollectiveForm form) { return spells_[form.index()].calls; }
  // A spell that has ended has counted the call. Whether one has is told once.
  void note_counted() { counted_ = true; }
  [[nodiscard]] bool take_counted() { return std::exchange(counted_, false); }
  // One begins with the call that next() has been asked for. `first`: of the group, the rank that asks for trials.
  void begin_spell(client::Courses courses, const client::Group& group, const steer::DispatchPlan& course,
                   steer::CallKey key, bool first, report::NativeReason reason);
  [[nodiscard]] report::NativeReason spell_reason(steer::CollectiveForm form) const {
    return spells_[form.index()].reason;
  }
  void forget_spells() {
    spells_ = {};
    passed_ = {};
  }

  // What the table says where sizes do not matter: the same for all calls of the communicator.
  [[nodiscard]] std::optional<Decision>& without_sizes(steer::CollectiveForm form) {
    return without_sizes_[form.index()];
  }

  // A call that the built-in table leaves to the MPI. Of a communicator with few calls, all of them such, nobody needs
  // to know.
  [[nodiscard]] bool too_few_to_steer() {
    if (native_ < kFew) ++native_;
    return native_ < kFew;
  }
  // Is it for the caller to say that the communicator has a course? Once.
  [[nodiscard]] bool join() { return !std::exchange(joined_, true); }

  // The next call, by the course that it is to go by. Tells service processes what a trial has shown, or that it costs
  // too much.
  [[nodiscard]] steer::Step next(client::Courses courses, const client::Group& group, const steer::DispatchPlan& course,
                                 steer::CallKey key);
  // The program does something else with the communicator for a while: what is being measured is of no use.
  void interrupt() { clock_.spoil(); }
  // On the group's first rank, for each call.
  void maybe_ask(client::Courses courses, const client::Group& group, const steer::TrialRequest& without_window,
                 const GroupShape& shape, steer::DecisionFile& learned, bool early);

 private:
  static constexpr std::uint32_t kFew = 32;

  static constexpr std::uint32_t kBeforeRecall = 4;  // calls; communicators with fewer do not ask what is known

  struct Spell {
    steer::NativeRun calls;
    steer::CallKey key;
    report::NativeReason reason = report::NativeReason::measured_choice;  // of its calls
  };
  struct Pace {
    steer::CallKey key;
    steer::TrialPace pace;
  };
  // `early`: of a new one.
  [[nodiscard]] steer::TrialPace& pace_of(steer::CallKey key, bool early = false);
  void watch_cost(client::Courses courses, const client::Group& group, const steer::Step& step, steer::CallKey key);

  // The form's spell is over: tells the pace of its calls.
  void end_spell(steer::CallKey key);

  std::array<Passed, steer::CollectiveForm::kCount> passed_{};
  std::array<std::optional<Decision>, steer::CollectiveForm::kCount> without_sizes_{};
  std::array<Spell, steer::CollectiveForm::kCount> spells_;
  bool counted_ = false;
  std::bitset<steer::CallKey::kCount> retired_;
  std::bitset<steer::CallKey::kCount> small_;  // of these
  std::uint32_t native_ = 0;
  bool joined_ = false;
  steer::PlanCursor steering_;
  steer::TrialClock clock_;
  std::vector<Pace> paces_;
  bool asked_ = false;  // for the trial that is under way, or to come
  steer::TrialCost cost_;
};

}  // namespace outrigger::mpi
