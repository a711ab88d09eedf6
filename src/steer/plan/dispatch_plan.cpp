#include "steer/plan/dispatch_plan.hpp"

namespace outrigger::steer {
namespace {

constexpr std::size_t kFirstDecision = DispatchPlan::kWords - kMostDecisions;
constexpr std::uint32_t kForGood = 1;
constexpr std::uint32_t kFailing = 1U << 31U;  // beside a trial's methods

std::uint32_t encode_decision(const CachedDecision& decision) {
  return std::uint32_t{decision.key.value} << 16U | std::uint32_t{decision.method.value} << 8U |
         (decision.for_good ? kForGood : 0);
}

CachedDecision decode_decision(std::uint32_t word) {
  return {{static_cast<std::uint16_t>(word >> 16U)}, {static_cast<std::uint8_t>(word >> 8U)}, (word & kForGood) != 0};
}

// `earlier`: of those before it.
bool is_valid(const CachedDecision& decision, const DispatchPlan& earlier) {
  if (!decision.key.known()) return decision == CachedDecision{};
  return decision.method.possible_for(decision.key) && earlier.decision(decision.key) == nullptr &&
         (decision.method.is_native() || !decision.for_good);
}

}  // namespace

DispatchPlan::Words DispatchPlan::encode() const {
  Words words{};
  words[0] = suspended.busy;
  words[1] = suspended.small;
  words[2] = std::uint32_t{trial.number} << 16U | trial.key.value;
  words[3] = std::uint32_t{trial.usual.value} << 16U | std::uint32_t{trial.other.value} << 8U | trial.window_log2 |
             (suspended.failing ? kFailing : 0);
  for (std::size_t i = 0; i < kMostDecisions; ++i) words[kFirstDecision + i] = encode_decision(decisions[i]);
  return words;
}

std::optional<DispatchPlan> DispatchPlan::decode(const Words& words) {
  DispatchPlan plan;
  plan.suspended = {words[0], words[1], (words[3] & kFailing) != 0};
  plan.trial.number = static_cast<std::uint16_t>(words[2] >> 16U);
  plan.trial.key.value = static_cast<std::uint16_t>(words[2]);
  plan.trial.usual.value = static_cast<std::uint8_t>(words[3] >> 16U);
  plan.trial.other.value = static_cast<std::uint8_t>(words[3] >> 8U);
  plan.trial.window_log2 = static_cast<std::uint8_t>(words[3]);
  if (!plan.trial.valid()) return std::nullopt;
  bool last = false;
  for (std::size_t i = 0; i < kMostDecisions; ++i) {
    const CachedDecision decision = decode_decision(words[kFirstDecision + i]);
    if (!is_valid(decision, plan) || (last && decision.key.known())) return std::nullopt;
    last = !decision.key.known();
    plan.decisions[i] = decision;
  }
  return plan.encode() == words ? std::optional(plan) : std::nullopt;
}

}  // namespace outrigger::steer
