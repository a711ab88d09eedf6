// Events of a timeline: 64 bytes each, written once, when the event has ended. docs/using/trace.md describes the
// timeline.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "protocol/ids.hpp"

namespace outrigger::trace {

enum class EventKind : std::uint8_t {
  none = 0,  // the place is reserved, but nothing is written yet
  // Events of a rank:
  call = 1,        // the program's call of a collective, or start of a persistent one
  completion = 2,  // a call that waits, or a test that has completed a collective
  collected = 3,   // each further collective completed by the call before
  phase = 8,       // named by the program, in one of its threads
  // Events of a service process, for one of its ranks:
  taken = 4,   // a post was taken
  move = 5,    // of a block
  reduce = 6,  // of several blocks into one
  ended = 7,   // the rank's operation has ended
};
inline constexpr std::uint8_t kLastKind = 8;

// `sequence` of an event whose operation is not known.
inline constexpr std::uint64_t kNoSequence = ~std::uint64_t{0};
// `detail` of an offloaded call, and of one that the ranks did by themselves; otherwise the reason why the call was
// native (report::NativeReason).
inline constexpr std::uint8_t kOffloaded = 255;
inline constexpr std::uint8_t kByRanks = 254;

struct Event {
  std::int64_t began_ns = 0;  // CLOCK_MONOTONIC of the node
  std::int64_t ended_ns = 0;
  // call, move, reduce: bytes. completion: the thread's tests before it that completed nothing.
  std::uint64_t bytes = 0;
  GroupId group;                         // the communicator; offloaded: its id in service processes
  std::uint64_t sequence = kNoSequence;  // of the operation in the group
  // For call, completion, collected: the request, counted by the rank from 1; 0: none. For move: from << 32 | to, world
  // ranks. For reduce: the world rank that gets the result.
  std::uint64_t subject = 0;
  std::uint8_t kind = 0;  // EventKind
  std::uint8_t detail =
      0;  // call: kOffloaded, kByRanks or a reason. completion: completed requests, up to 255. move: Reach
  // call: index_of(CallKind). completion: CompletionCall. taken: index_of(Collective). phase: index in
  // Header::phase_names.
  std::uint16_t name = 0;
  // call, taken: index_of(Algorithm) if offloaded. completion: requests. reduce: operands. move: fabric::MoveStatus.
  // ended: CompletionStatus << 24 | late arrivals. phase: nesting depth.
  std::uint32_t number = 0;
};
static_assert(sizeof(Event) == 64 && std::is_trivially_copyable_v<Event>);

// Completion calls, by Event::name.
enum class CompletionCall : std::uint16_t { wait, waitall, waitany, waitsome, test, testall, testany, testsome };
inline constexpr std::array<std::string_view, 8> kCompletionCalls{
    "MPI_Wait", "MPI_Waitall", "MPI_Waitany", "MPI_Waitsome", "MPI_Test", "MPI_Testall", "MPI_Testany", "MPI_Testsome"};
[[nodiscard]] constexpr bool tests(CompletionCall call) {
  return call >= CompletionCall::test;
}

inline constexpr std::uint32_t kMostLateArrivals = (1U << 24) - 1;
[[nodiscard]] constexpr std::uint32_t ending(std::uint32_t status, std::uint32_t late) {
  return status << 24U | (late < kMostLateArrivals ? late : kMostLateArrivals);
}

// A reading of one clock when that of world rank 0 reads `at_ns + offset_ns`.
struct ClockSample {
  std::int64_t at_ns = 0;
  std::int64_t offset_ns = 0;
  std::int64_t error_ns = kNotMeasured;  // upper bound of the error
  static constexpr std::int64_t kNotMeasured = -1;
};

}  // namespace outrigger::trace
