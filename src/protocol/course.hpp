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
// Plain data.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "protocol/collective.hpp"

namespace outrigger {

// Which collectives the program's own MPI does, and why; sets of bits by Collective.
struct Course {
  std::uint16_t busy = 0;   // the core of a service process is taken by others
  std::uint16_t small = 0;  // the blocks of all ranks have been small

  [[nodiscard]] static constexpr std::uint16_t bit(Collective collective) {
    return static_cast<std::uint16_t>(1U << static_cast<unsigned>(collective));
  }
  [[nodiscard]] constexpr bool native(Collective collective) const { return ((busy | small) & bit(collective)) != 0; }
  [[nodiscard]] constexpr std::uint32_t encode() const { return std::uint32_t{busy} << 16U | small; }
  [[nodiscard]] static constexpr Course decode(std::uint32_t text) {
    return {static_cast<std::uint16_t>(text >> 16U), static_cast<std::uint16_t>(text)};
  }
  bool operator==(const Course&) const = default;
};
inline constexpr std::uint16_t kEveryCollective = 0xFFFF;

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
  // Written by the rank.
  std::atomic<std::uint64_t> calls;  // begun

  // Written by the service process that serves the rank.
  struct Plan {
    std::atomic<std::uint64_t> from;
    std::atomic<std::uint32_t> before;
    std::atomic<std::uint32_t> after;
  };
  alignas(64) std::atomic<std::uint32_t> held;  // not 0: the rank waits at its next call
  std::atomic<std::uint32_t> in_force;          // which plan
  std::array<Plan, 2> plans;

  // The rank, and the service process while it holds it.
  [[nodiscard]] CoursePlan plan() const {
    const Plan& plan = plans[in_force.load(std::memory_order_acquire) % 2];
    return {plan.from.load(std::memory_order_relaxed), Course::decode(plan.before.load(std::memory_order_relaxed)),
            Course::decode(plan.after.load(std::memory_order_relaxed))};
  }
  // The service process while it holds the rank.
  void change(const CoursePlan& next) {
    const std::uint32_t other = (in_force.load(std::memory_order_relaxed) + 1) % 2;
    plans[other].from.store(next.from, std::memory_order_relaxed);
    plans[other].before.store(next.before.encode(), std::memory_order_relaxed);
    plans[other].after.store(next.after.encode(), std::memory_order_relaxed);
    in_force.store(other, std::memory_order_release);
  }
  // The rank, before the service process hears of it.
  void clear() {
    calls.store(0, std::memory_order_relaxed);
    held.store(0, std::memory_order_relaxed);
    for (Plan& plan : plans) {
      plan.from.store(0, std::memory_order_relaxed);
      plan.before.store(0, std::memory_order_relaxed);
      plan.after.store(0, std::memory_order_relaxed);
    }
    in_force.store(0, std::memory_order_relaxed);
  }
};
static_assert(sizeof(CourseEntry) == 128);

// Communicators of one rank that may have a course at a time. At the limit further ones keep the built-in choice.
inline constexpr std::uint32_t kCourseEntries = 1024;

// By number, from 1; 0: the communicator has none.
struct CourseNumber {
  std::uint16_t value = 0;
  [[nodiscard]] constexpr bool valid() const { return value != 0 && value <= kCourseEntries; }
  bool operator==(const CourseNumber&) const = default;
};

}  // namespace outrigger
