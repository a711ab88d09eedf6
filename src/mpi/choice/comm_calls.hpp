// How the calls of one communicator go by its course (protocol/course.hpp), on this rank.
//
// Thread rule: one thread at a time, as MPI has it for the calls of a communicator.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "client/client.hpp"
#include "client/operations/steering.hpp"
#include "client/operations/trial_cost.hpp"
#include "mpi/choice/learned.hpp"
#include "mpi/choice/lost_time.hpp"
#include "protocol/choice.hpp"

namespace outrigger::mpi {

class CommCalls {
 public:
  // Native for good: need not be steered.
  [[nodiscard]] bool retired(CallKey key) const { return retired_.test(key.value); }

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
  [[nodiscard]] client::Step next(client::Courses courses, const client::Group& group, const Course& course,
                                  CallKey key);
  // On the group's first rank, for each call.
  void maybe_ask(client::Courses courses, const client::Group& group, const TrialRequest& without_window,
                 const GroupShape& shape, LearnedChoices& learned);

 private:
  static constexpr std::uint32_t kFew = 32;

  static constexpr std::uint32_t kBeforeRecall = 4;  // calls; communicators with fewer do not ask what is known

  struct Pace {
    CallKey key;
    client::TrialPace pace;
  };
  [[nodiscard]] client::TrialPace& pace_of(CallKey key);
  void watch_cost(client::Courses courses, const client::Group& group, const client::Step& step, CallKey key);

  std::bitset<CallKey::kCount> retired_;
  std::uint32_t native_ = 0;
  bool joined_ = false;
  client::Steering steering_;
  TrialClock clock_;
  std::vector<Pace> paces_;
  bool asked_ = false;  // for the trial that is under way, or to come
  client::TrialCost cost_;
};

}  // namespace outrigger::mpi
