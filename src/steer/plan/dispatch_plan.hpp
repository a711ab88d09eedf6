// The dispatch plan of a communicator: which of its collectives are offloaded at present and by which method, and from
// which call on that changes. All of its ranks must change at the same call though none of them waits for another.
//
//   rank     counts each call that the plan decides, then looks whether it is held
//   service  holds its ranks, then reads how far each is; all service processes of the communicator do; one of them
//            names a call that no rank has begun, from which on the new plan counts; ranks are released
//
// A held rank waits in its call for that, and for nothing that another rank has to do. Either the service process sees
// the call counted or the rank sees that it is held: both write, then look, in the one order of sequentially consistent
// operations. Ranks behind the named call go by the plan before it, so a second change waits until all have passed the
// first.
//
// Calls that a rule of the user's decides are counted, too: they go by the plan once service processes fail.
//
// Plain data.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "protocol/collective.hpp"
#include "protocol/shared/segment.hpp"
#include "steer/plan/decision.hpp"

namespace outrigger::steer {

// A set of collectives: a bit for each.
using CollectiveBits = std::uint32_t;
static_assert(kCollectives.size() < 32, "bit 0 is nobody's");
inline constexpr CollectiveBits kEveryCollective = 0xFFFFFFFF;

// Which collectives the program's own MPI does for a while, and why.
struct Suspended {
  CollectiveBits busy = 0;   // the core of a service process is taken by others
  CollectiveBits small = 0;  // the blocks of all ranks have been small
  bool failing = false;      // all: service processes have died too often; for good, and whatever rules say

  [[nodiscard]] static constexpr CollectiveBits bit(Collective collective) {
    return CollectiveBits{1} << static_cast<unsigned>(collective);
  }
  [[nodiscard]] constexpr bool has(Collective collective) const {
    return failing || ((busy | small) & bit(collective)) != 0;
  }
  bool operator==(const Suspended&) const = default;
};

struct DispatchPlan {
  Suspended suspended;
  Trial trial;
  std::array<CachedDecision, kMostDecisions> decisions;  // those that have been made come first

  // Nothing has been decided: the built-in table's.
  [[nodiscard]] constexpr const CachedDecision* decision(CallKey key) const {
    for (const CachedDecision& made : decisions) {
      if (made.key == key) return &made;
      if (!made.key.known()) break;
    }
    return nullptr;
  }
  // False: there are too many.
  bool keep(const CachedDecision& decision) {
    for (CachedDecision& made : decisions) {
      if (made.key.known() && made.key != decision.key) continue;
      made = decision;
      return true;
    }
    return false;
  }

  // As it stands in shared memory and travels.
  static constexpr std::size_t kWords = 4 + kMostDecisions;
  using Words = std::array<std::uint32_t, kWords>;
  [[nodiscard]] Words encode() const;
  // Nothing for anything that encode() would not have written.
  [[nodiscard]] static std::optional<DispatchPlan> decode(const Words& words);
  bool operator==(const DispatchPlan&) const = default;
};

struct PlanChange {
  std::uint64_t from = 0;  // the first call, counted from 0, that goes by `after`
  DispatchPlan before;
  DispatchPlan after;

  [[nodiscard]] constexpr const DispatchPlan& at(std::uint64_t call) const { return call < from ? before : after; }
  bool operator==(const PlanChange&) const = default;
};

// A communicator's plan in a rank's control segment, where both sides have it. Two plans are written in turn, so that
// the one in force is never touched; by the rules above no rank can still be reading the one before it.
struct alignas(64) PlanEntry {
  // Written by the rank. The measured times before the service process hears of them.
  std::atomic<std::uint64_t> calls;  // begun
  std::array<std::atomic<std::uint64_t>, kTrialWindows> lost_ns;
  std::atomic<std::uint64_t> passed_ns;

  // Written by the service process that serves the rank.
  using Words = std::array<std::atomic<std::uint32_t>, DispatchPlan::kWords>;
  struct Plan {
    std::atomic<std::uint64_t> from;
    Words before;
    Words after;
  };
  alignas(64) std::atomic<std::uint32_t> held;  // not 0: the rank waits at its next call
  std::atomic<std::uint32_t> changes;           // so far; an odd one is in the second of the plans
  std::array<Plan, 2> plans;

  // The rank, and the service process while it holds it.
  [[nodiscard]] PlanChange plan() const {
    const Plan& plan = current();
    return {plan.from.load(std::memory_order_relaxed), read(plan.before), read(plan.after)};
  }
  // The service process while it holds the rank.
  void change(const PlanChange& next) {
    const std::uint32_t number = changes.load(std::memory_order_relaxed) + 1;
    Plan& plan = plans[number % 2];
    plan.from.store(next.from, std::memory_order_relaxed);
    write(plan.before, next.before);
    write(plan.after, next.after);
    changes.store(number, std::memory_order_release);
  }
  // The rank.
  void put(const TrialTimes& times) {
    for (std::size_t i = 0; i < times.lost_ns.size(); ++i) {
      lost_ns[i].store(times.lost_ns[i], std::memory_order_relaxed);
    }
    passed_ns.store(times.passed_ns, std::memory_order_release);
  }
  // The service process once it has heard of them; a rank that writes later harms only what is decided.
  [[nodiscard]] TrialTimes times() const {
    TrialTimes times;
    times.passed_ns = passed_ns.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < times.lost_ns.size(); ++i) {
      times.lost_ns[i] = lost_ns[i].load(std::memory_order_relaxed);
    }
    return times;
  }

 private:
  [[nodiscard]] const Plan& current() const { return plans[changes.load(std::memory_order_acquire) % 2]; }
  // The empty plan from zeros, as the rank leaves a fresh entry.
  [[nodiscard]] static DispatchPlan read(const Words& from) {
    DispatchPlan::Words words{};
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = from[i].load(std::memory_order_relaxed);
    return DispatchPlan::decode(words).value_or(DispatchPlan{});
  }
  static void write(Words& to, const DispatchPlan& plan) {
    const DispatchPlan::Words words = plan.encode();
    for (std::size_t i = 0; i < words.size(); ++i) to[i].store(words[i], std::memory_order_relaxed);
  }
};
static_assert(sizeof(PlanEntry) == kPlanEntryBytes);

// `number` must be valid.
[[nodiscard]] inline PlanEntry& plan_entry(SegmentView segment, PlanNumber number) {
  return *reinterpret_cast<PlanEntry*>(segment.plan_entry(number));
}

}  // namespace outrigger::steer
