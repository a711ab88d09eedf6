// What a timeline is made of: events of 64 bytes, each written once, when it has ended. docs/using/trace.md says what
// is made of them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "protocol/ids.hpp"

namespace outrigger::trace {

enum class EventKind : std::uint8_t {
  none = 0,  // the place has been taken, and nothing stands there yet
  // Of a rank:
  call = 1,        // of a collective by the program, or the start of a persistent one
  completion = 2,  // a call that waits, or a test that has collected a collective
  collected = 3,   // by the completion call before it: each further collective
  phase = 8,       // that the program has named, of one of its threads
  // Of a service process, for one of its ranks:
  taken = 4,   // what the rank has posted
  move = 5,    // of a block
  reduce = 6,  // of several into one
  ended = 7,   // an operation, for the rank
};
inline constexpr std::uint8_t kLastKind = 8;

// Native calls that have a number in their group, and operations that the event is not known to belong to.
inline constexpr std::uint64_t kNoSequence = ~std::uint64_t{0};
// `detail` of a call that was offloaded; else why not (report::NativeReason).
inline constexpr std::uint8_t kOffloaded = 255;

struct Event {
  std::int64_t began_ns = 0;  // CLOCK_MONOTONIC of the node
  std::int64_t ended_ns = 0;
  // call, move, reduce: bytes. completion: tests of the thread before it that have collected nothing.
  std::uint64_t bytes = 0;
  GroupId group;                         // of the communicator; of an offloaded one, as the service processes know it
  std::uint64_t sequence = kNoSequence;  // of the operation in the group
  // call, completion, collected: the request, counted by the rank from 1; 0: none. move: from << 32 | to, world ranks.
  // reduce: the world rank whose memory it goes to.
  std::uint64_t subject = 0;
  std::uint8_t kind = 0;    // EventKind
  std::uint8_t detail = 0;  // call: kOffloaded or a reason. completion: collected requests, up to 255. move: Reach
  // call: index_of(CallKind). completion: CompletionCall. taken: index_of(Collective). phase: of Header::phase_names.
  std::uint16_t name = 0;
  // call, taken: index_of(Algorithm) of an offloaded one. completion: requests. reduce: operands.
  // move: fabric::MoveStatus. ended: CompletionStatus << 24 | late arrivals. phase: how many it lies in.
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

// What one clock says when that of world rank 0 says `at_ns + offset_ns`.
struct ClockSample {
  std::int64_t at_ns = 0;
  std::int64_t offset_ns = 0;
  std::int64_t error_ns = kNotMeasured;  // at most so wrong
  static constexpr std::int64_t kNotMeasured = -1;
};

}  // namespace outrigger::trace
