#include "steer/rank/turns_trial.hpp"

#include <algorithm>
#include <limits>

namespace outrigger::steer {
namespace {

constexpr double kMargin = 0.97;      // ranks win below this ratio to native's time
constexpr double kFarFromIt = 2.0;    // above this ratio of times the next trial is later
constexpr std::uint64_t kLonger = 4;  // factor on the calls until the next trial

// The time that all ranks together spend in a call after the last arrival.
double cost_of(std::span<const TurnTimes> all, std::size_t way, std::size_t slot) {
  std::int64_t last_ns = std::numeric_limits<std::int64_t>::min();
  for (const TurnTimes& rank : all) last_ns = std::max(last_ns, rank.calls[way][slot].began_ns);
  double sum = 0;
  for (const TurnTimes& rank : all) {
    sum += static_cast<double>(std::max<std::int64_t>(rank.calls[way][slot].ended_ns - last_ns, 0));
  }
  return sum;
}

double median_cost(std::span<const TurnTimes> all, Way way) {
  std::array<double, TurnTimes::kTimed> costs{};
  for (std::size_t slot = 0; slot < costs.size(); ++slot)
    costs[slot] = cost_of(all, static_cast<std::size_t>(way), slot);
  const auto middle = costs.begin() + costs.size() / 2;
  std::nth_element(costs.begin(), middle, costs.end());
  return *middle;
}

}  // namespace

// Pairs of both ways, the first of which changes from pair to pair: native ranks, ranks native, ...
TurnsTrial::Turn TurnsTrial::next_of_trial() {
  if (tried_ == 0) times_ = std::make_unique<TurnTimes>();
  const std::uint32_t pair = tried_ / 2;
  const bool first = tried_ % 2 == 0;
  Turn turn;
  turn.way = first == (pair % 2 == 0) ? Way::native : Way::ranks;
  turn.timed = pair >= kWarmUps;
  turn.slot = turn.timed ? pair - kWarmUps : 0;
  ++tried_;
  return turn;
}

// A call by ranks, as if there were none.
TurnsTrial::Turn TurnsTrial::look() {
  until_look_ = std::min(2 * until_look_, kRarestLook);
  be_quiet(rest_ - 1);
  return {Way::ranks};
}

void TurnsTrial::be_quiet(std::uint64_t calls) {
  left_ = looks_ && way_ == Way::native ? std::min(calls, until_look_) : calls;
  rest_ = calls - left_;
}

void TurnsTrial::note(const Turn& turn, const TurnTimes::Call& call) {
  times_->calls[static_cast<std::size_t>(turn.way)][turn.slot] = call;
}

void TurnsTrial::judge(std::span<const TurnTimes> all) {
  const double native = median_cost(all, Way::native);
  const double ranks = median_cost(all, Way::ranks);
  way_ = ranks <= kMargin * native ? Way::ranks : Way::native;
  saved_ns_ = way_ == Way::ranks ? static_cast<std::int64_t>((native - ranks) / static_cast<double>(all.size())) : 0;
  const bool far = ranks > kFarFromIt * native || native > kFarFromIt * ranks;
  be_quiet(std::min(far ? kLonger * quiet_ : quiet_, kLongestQuiet));
  quiet_ = std::min(kLonger * quiet_, kLongestQuiet);
  tried_ = 0;
  times_.reset();
}

}  // namespace outrigger::steer
