// The course of a communicator: which of its collectives go to service processes at present, and from which call on
// that changes. All of its ranks must change at the same call though none of them waits for another.
//
//   rank     counts each call that the course decides, then looks whether it is held
//   service  holds its ranks, then reads how far each is; all service processes of the communicator do; one of them
//            names a call that no rank has begun, from which on the new course counts; ranks are let go
//
// A rank that is held waits in its call for that, and for nothing that another rank has to do. Either the service
// process sees the call counted or the rank sees that it is held: both write, then look, in the one order of
// sequentially consistent operations. Ranks behind the named call go by the course before it, so a second change waits
// until all have passed the first.
//
// Calls that a rule of the user's decides are counted, too: they go by the course once service processes fail.
//
// Plain data.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "protocol/choice.hpp"
#include "protocol/collective.hpp"

namespace outrigger {

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

struct Course {
  Suspended suspended;
  Trial trial;
  std::array<Choice, kMostChoices> choices;  // those that have been made come first

  // Nothing has been decided: the built-in table's.
  [[nodiscard]] constexpr const Choice* choice(CallKey key) const {
    for (const Choice& made : choices) {
      if (made.key == key) return &made;
      if (!made.key.known()) break;
    }
    return nullptr;
  }
  // False: there are too many.
  bool choose(const Choice& choice) {
    for (Choice& made : choices) {
      if (made.key.known() && made.key != choice.key) continue;
      made = choice;
      return true;
    }
    return false;
  }

  // As it stands in shared memory and travels.
  static constexpr std::size_t kWords = 4 + kMostChoices;
  using Words = std::array<std::uint32_t, kWords>;
  [[nodiscard]] Words encode() const;
  // Nothing for anything that encode() would not have written.
  [[nodiscard]] static std::optional<Course> decode(const Words& words);
  bool operator==(const Course&) const = default;
};

struct CoursePlan {
  std::uint64_t from = 0;  // the first call, counted from 0, that goes by `after`
  Course before;
  Course after;

  [[nodiscard]] constexpr const Course& at(std::uint64_t call) const { return call < from ? before : after; }
  bool operator==(const CoursePlan&) const = default;
};

// A communicator in a rank's control segment, where both sides have it. Plans are written by turns, so that the one in
// force is never touched; by the rules above no rank can still be reading the one before it.
struct alignas(64) CourseEntry {
  // Written by the rank. The measured times before the service process hears of them.
  std::atomic<std::uint64_t> calls;  // begun
  std::array<std::atomic<std::uint64_t>, kTrialWindows> lost_ns;
  std::atomic<std::uint64_t> passed_ns;

  // Written by the service process that serves the rank.
  using Words = std::array<std::atomic<std::uint32_t>, Course::kWords>;
  struct Plan {
    std::atomic<std::uint64_t> from;
    Words before;
    Words after;
  };
  alignas(64) std::atomic<std::uint32_t> held;  // not 0: the rank waits at its next call
  std::atomic<std::uint32_t> changes;           // so far; by turns they are in one of the plans
  std::array<Plan, 2> plans;

  // The rank, and the service process while it holds it.
  [[nodiscard]] CoursePlan plan() const {
    const Plan& plan = current();
    return {plan.from.load(std::memory_order_relaxed), read(plan.before), read(plan.after)};
  }
  // The service process while it holds the rank.
  void change(const CoursePlan& next) {
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
  // The service process once it has heard of them; whatever a rank writes later harms only what is decided.
  [[nodiscard]] TrialTimes times() const {
    TrialTimes times;
    times.passed_ns = passed_ns.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < times.lost_ns.size(); ++i) {
      times.lost_ns[i] = lost_ns[i].load(std::memory_order_relaxed);
    }
    return times;
  }
  // The rank, before the service process hears of it.
  void clear() {
    calls.store(0, std::memory_order_relaxed);
    put(TrialTimes{});
    held.store(0, std::memory_order_relaxed);
    for (Plan& plan : plans) {
      plan.from.store(0, std::memory_order_relaxed);
      write(plan.before, Course{});
      write(plan.after, Course{});
    }
    changes.store(0, std::memory_order_relaxed);
  }

 private:
  [[nodiscard]] const Plan& current() const { return plans[changes.load(std::memory_order_acquire) % 2]; }
  [[nodiscard]] static Course read(const Words& from) {
    Course::Words words{};
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = from[i].load(std::memory_order_relaxed);
    return Course::decode(words).value_or(Course{});
  }
  static void write(Words& to, const Course& course) {
    const Course::Words words = course.encode();
    for (std::size_t i = 0; i < words.size(); ++i) to[i].store(words[i], std::memory_order_relaxed);
  }
};
static_assert(sizeof(CourseEntry) == 448);

// Communicators of one rank that may have a course at a time. At the limit further ones keep the built-in choice.
inline constexpr std::uint32_t kCourseEntries = 512;

// By number, from 1; 0: the communicator has none.
struct CourseNumber {
  std::uint16_t value = 0;
  [[nodiscard]] constexpr bool valid() const { return value != 0 && value <= kCourseEntries; }
  bool operator==(const CourseNumber&) const = default;
};

}  // namespace outrigger
