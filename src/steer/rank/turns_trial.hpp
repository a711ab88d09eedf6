// Trials of a communicator's calls of one kind: its MPI and its ranks themselves (src/intranode) alternate. Trials are
// repeated from time to time.
//
// Every rank of the communicator makes these calls in the same order, so the ordinal of a call decides alike on all of
// them. Times differ: after the last call of a trial the ranks tell each other theirs, and judge them alike.
//
// Where ranks can copy both directly and through slots, either is tried: processors differ in which takes less time,
// and so do sizes.
//
// Where ranks share cores, a short call by itself does not show what a row of them takes: a rank that runs ahead saves
// the others' turns on the cores. So the second trial and later ones time rows of calls, in each of which ranks begin
// together. The first one does not, or it would take as many calls as many programs make.
//
// Where only ranks can see how long blocks are, they do one of many native calls all the same: a look.
//
// A call costs what ranks spend in it after the last of them has come: waiting for a late one is no way's fault.
//
// Thread rule: one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "steer/rank/way.hpp"

namespace outrigger::steer {

// The calls of a trial as one rank has timed them.
struct TurnTimes {
  static constexpr std::uint32_t kTimed = 9;  // of each way
  struct Call {
    std::int64_t began_ns = 0;
    std::int64_t ended_ns = 0;
  };
  std::array<std::array<Call, kTimed>, 3> calls{};  // natively, by ranks, and by ranks through slots
  bool shares_core = false;                         // the rank, with others

  // By another node's clock.
  [[nodiscard]] TurnTimes later_by(std::int64_t ns) const {
    TurnTimes moved = *this;
    for (auto& way : moved.calls) {
      for (Call& call : way) call = {call.began_ns + ns, call.ended_ns + ns};
    }
    return moved;
  }
};

class TurnsTrial {
 public:
  // As said above.
  struct Options {
    bool looks = false;
    bool tries_slots = false;
    bool runs_ahead = false;   // some rank does not wait for the others in such a call
    bool shares_core = false;  // this rank; others may differ
  };
  TurnsTrial() = default;
  explicit TurnsTrial(const Options& options)
      : looks_(options.looks),
        runs_ahead_(options.runs_ahead),
        shares_core_(options.shares_core),
        ways_(options.tries_slots ? 3 : 2) {}

  struct Turn {
    Way way = Way::native;
    bool by_slots = false;    // of ranks that can also copy directly
    bool timed = false;       // note() is told its times
    bool begins_row = false;  // all ranks must have come before the call begins
    std::uint32_t place = 0;  // of the timed ones of this way
  };

  // The last call, by next(), is part of a trial.
  [[nodiscard]] bool is_under_way() const { return tried_ != 0; }
  // A trial has been made: judge() comes before the next call.
  [[nodiscard]] bool is_over() const { return tried_ == ways_ * kOfEach * row_; }
  // The next call.
  [[nodiscard]] Turn next() {
    if (left_ != 0) [[likely]] {
      --left_;
      return {way_, by_slots_};
    }
    return rest_ != 0 ? look() : next_of_trial();
  }
  // The next call is in no trial: next() would return way(), and take() does the same.
  [[nodiscard]] bool is_quiet() const { return left_ != 0; }
  void take() { --left_; }
  void note(const Turn& turn, const TurnTimes::Call& call);
  // This rank's, of the trial that has just been made.
  [[nodiscard]] const TurnTimes& times() const { return *times_; }
  // With the times of all ranks.
  void judge(std::span<const TurnTimes> all);

  // The way of all calls outside trials.
  [[nodiscard]] Way way() const { return way_; }
  [[nodiscard]] bool by_slots() const { return by_slots_; }
  // Time that each rank saves in a call by ranks, by the last trial. 0: such calls are native, or not tried yet.
  [[nodiscard]] std::int64_t saved_ns() const { return saved_ns_; }

 private:
  static constexpr std::uint32_t kWarmUps = 2;  // of each way: memory is touched, caches fill
  static constexpr std::uint32_t kOfEach = kWarmUps + TurnTimes::kTimed;
  static constexpr std::uint32_t kRow = 48;            // calls: more than a rank can be ahead of the others
  static constexpr std::uint64_t kBeforeRows = 1'000;  // calls between the first trial and one of rows
  static constexpr std::uint64_t kFirstQuiet = 4'000;  // calls between two trials
  static constexpr std::uint64_t kLongestQuiet = 1'000'000;

  static constexpr std::uint64_t kFirstLook = 64;  // native calls until then, later more
  static constexpr std::uint64_t kRarestLook = 1024;

  [[nodiscard]] Turn next_of_trial();
  [[nodiscard]] Turn look();
  void be_quiet(std::uint64_t calls);

  bool looks_ = false;
  bool runs_ahead_ = false;
  bool shares_core_ = false;
  std::uint32_t row_ = 1;  // calls of a turn
  std::uint32_t ways_ = 2;
  Way way_ = Way::native;
  bool by_slots_ = false;
  std::int64_t saved_ns_ = 0;
  std::uint32_t tried_ = 0;  // calls of the trial under way
  std::uint64_t left_ = 0;   // calls until the next one begins, or until a look
  std::uint64_t rest_ = 0;   // calls from a look on, until the next one begins
  std::uint64_t until_look_ = kFirstLook;
  std::uint64_t quiet_ = kFirstQuiet;
  std::unique_ptr<TurnTimes> times_;  // while one is under way
};

}  // namespace outrigger::steer
