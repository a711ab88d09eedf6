#include "steer/rank/turns_trial.hpp"

#include <algorithm>
#include <limits>

namespace outrigger::steer {
namespace {

constexpr double kMargin = 0.97;      // ranks win below this ratio to native's time
constexpr double kFarFromIt = 2.0;    // above this ratio of times the next trial is later
constexpr std::uint64_t kLonger = 4;  // factor on the calls until the next trial

// Indices of TurnTimes::calls.
constexpr std::size_t kNatively = 0;
constexpr std::size_t kByRanks = 1;
constexpr std::size_t kBySlots = 2;

// The time that all ranks together spend in a call after the last arrival.
double cost_of(std::span<const TurnTimes> all, std::size_t way, std::size_t place) {
  std::int64_t last_ns = std::numeric_limits<std::int64_t>::min();
  for (const TurnTimes& rank : all) last_ns = std::max(last_ns, rank.calls[way][place].began_ns);
  double sum = 0;
  for (const TurnTimes& rank : all) {
    sum += static_cast<double>(std::max<std::int64_t>(rank.calls[way][place].ended_ns - last_ns, 0));
  }
  return sum;
}

double median_cost(std::span<const TurnTimes> all, std::size_t way) {
  std::array<double, TurnTimes::kTimed> costs{};
  for (std::size_t place = 0; place < costs.size(); ++place) costs[place] = cost_of(all, way, place);
  const auto middle = costs.begin() + costs.size() / 2;
  std::nth_element(costs.begin(), middle, costs.end());
  return *middle;
}

}  // namespace

// Rounds of all ways, each of which begins with another one: native ranks, ranks native, ...
TurnsTrial::Turn TurnsTrial::next_of_trial() {
  if (tried_ == 0) times_ = std::make_unique<TurnTimes>();
  times_->shares_core = shares_core_;
  const std::uint32_t number = tried_ / row_;
  const std::uint32_t round = number / ways_;
  const std::size_t way = (number + round) % ways_;
  Turn turn{.way = way == kNatively ? Way::native : Way::ranks, .by_slots = way == kBySlots};
  turn.begins_row = row_ != 1 && tried_ % row_ == 0;
  ++tried_;
  turn.timed = round >= kWarmUps;
  turn.place = turn.timed ? round - kWarmUps : 0;
  return turn;
}

// A call by ranks, as if there were none.
TurnsTrial::Turn TurnsTrial::look() {
  until_look_ = std::min(2 * until_look_, kRarestLook);
  be_quiet(rest_ - 1);
  return {Way::ranks, by_slots_};
}

void TurnsTrial::be_quiet(std::uint64_t calls) {
  left_ = looks_ && way_ == Way::native ? std::min(calls, until_look_) : calls;
  rest_ = calls - left_;
}

void TurnsTrial::note(const Turn& turn, const TurnTimes::Call& call) {
  const std::size_t way = turn.way == Way::native ? kNatively : turn.by_slots ? kBySlots : kByRanks;
  TurnTimes::Call& noted = times_->calls[way][turn.place];
  if (row_ == 1 || turn.begins_row) {
    noted = call;
  } else {
    noted.ended_ns += call.ended_ns - call.began_ns;  // as if the program called again at once
  }
}

void TurnsTrial::judge(std::span<const TurnTimes> all) {
  const double native = median_cost(all, kNatively);
  double ranks = median_cost(all, kByRanks);
  by_slots_ = false;
  if (const double by_slots = median_cost(all, kBySlots); ways_ == 3 && by_slots < ranks) {
    by_slots_ = true;
    ranks = by_slots;
  }
  const double calls = static_cast<double>(all.size()) * row_;
  way_ = ranks <= kMargin * native ? Way::ranks : Way::native;
  saved_ns_ = way_ == Way::ranks ? static_cast<std::int64_t>((native - ranks) / calls) : 0;
  const bool far = ranks > kFarFromIt * native || native > kFarFromIt * ranks;
  const bool times_rows = runs_ahead_ && std::ranges::any_of(all, &TurnTimes::shares_core);
  if (times_rows && row_ == 1) {
    be_quiet(kBeforeRows);
  } else {
    be_quiet(std::min(far ? kLonger * quiet_ : quiet_, kLongestQuiet));
    quiet_ = std::min(kLonger * quiet_, kLongestQuiet);
  }
  row_ = times_rows ? kRow : 1;
  tried_ = 0;
  times_.reset();
}

}  // namespace outrigger::steer
