#include "steer/plan/decision.hpp"

namespace outrigger::steer {
namespace {

constexpr double kWorthwhile = 0.01;  // of the time that passes
constexpr std::size_t kCounted = kTrialPairs - 1;
constexpr std::size_t kMostOfThem = kCounted - 1;

struct Gain {
  double median = 0;  // of the time of a window
  std::size_t pairs = 0;
};

// The gain of the other method over the usual one.
Gain gain_of_other(const Trial& trial, const TrialTimes& times) {
  std::array<double, kCounted> gains{};
  Gain gain;
  for (std::size_t i = 0; i < kCounted; ++i) {
    const auto first = static_cast<std::uint32_t>(2 * (i + 1));
    const auto first_lost = static_cast<double>(times.lost_ns[first]);
    const auto second_lost = static_cast<double>(times.lost_ns[first + 1]);
    gains[i] = trial.other_in(first) ? second_lost - first_lost : first_lost - second_lost;
    if (gains[i] > 0) ++gain.pairs;
  }
  std::sort(gains.begin(), gains.end());
  const double window = static_cast<double>(times.passed_ns) / kTrialWindows;
  gain.median = (gains[kCounted / 2 - 1] + gains[kCounted / 2]) / 2 / window;
  return gain;
}

}  // namespace

std::optional<Method> better_method(const Trial& trial, const TrialTimes& times) {
  if (!trial.under_way() || times.passed_ns == 0) return std::nullopt;
  const Gain gain = gain_of_other(trial, times);
  if (trial.other.is_native()) return gain.median > -kWorthwhile ? trial.other : trial.usual;
  return gain.median > kWorthwhile && gain.pairs >= kMostOfThem ? trial.other : trial.usual;
}

}  // namespace outrigger::steer
