// What one rank counts for the report, in sealed shared memory that outlives it: the rank writes, world rank 0 gets all
// of them at MPI_Finalize, and the keeper reads those of its node when the ranks have gone without that.
//
// Thread rule: the rank writes under a lock of its own. Who reads a ledger of another process may see a rank in the
// middle of a count, or nonsense: everything is checked when it is read (summary.hpp).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/result.hpp"
#include "base/shared_memory.hpp"
#include "base/unique_fd.hpp"
#include "protocol/collective.hpp"
#include "protocol/collective_calls.hpp"
#include "protocol/ids.hpp"
#include "protocol/memory.hpp"
#include "protocol/shared/shared_heap.hpp"
#include "protocol/shared/wire_route.hpp"

namespace outrigger::report {

// Why a call was left to the native MPI.
enum class NativeReason : std::uint8_t {
  none,
  unknown_communicator,  // members outside MPI_COMM_WORLD, or made in a way not seen
  intercommunicator,
  group_of_one,
  group_too_large,
  switched_off,  // info key outrigger=off
  users_rule,    // --algorithm or --blocking
  invalid_arguments,
  service_core_taken,  // by other processes, for a while
  small_blocks,        // of a v-form, so far
  measured_choice,     // a trial has shown that it is no slower
  not_tried,           // ranks leave no core, and no trial was worth it so far
  services_died,       // too often
  other_reduction,     // an operation or a datatype that service processes do not reduce
  rounding,            // a floating-point sum or product: nobody has asked for another order than the MPI's
  // The following are not in `collectives`, which has what could have been offloaded as things were.
  blocking_form,  // nobody has asked for blocking forms to be offloaded
  not_offloaded,  // there is no offloaded form of it
  native_job,     // the whole job runs natively
};
inline constexpr std::size_t kNativeReasons = 18;
inline constexpr std::array<const char*, kNativeReasons> kReasonNames{"none",
                                                                      "unknown communicator",
                                                                      "intercommunicator",
                                                                      "group of one",
                                                                      "group too large",
                                                                      "switched off",
                                                                      "your rule",
                                                                      "invalid arguments",
                                                                      "service core taken",
                                                                      "small blocks",
                                                                      "measured choice",
                                                                      "not tried",
                                                                      "services died",
                                                                      "other operation or datatype",
                                                                      "rounding",
                                                                      "blocking form",
                                                                      "no offloaded form",
                                                                      "native job"};
[[nodiscard]] constexpr bool could_be_offloaded(NativeReason reason) {
  return reason < NativeReason::blocking_form;
}

// bytes[]: the reaches, then:
inline constexpr std::size_t kOwnBytes = kReachCount;
inline constexpr std::size_t kBounceBytes = kReachCount + 1;
inline constexpr std::size_t kByteKinds = kReachCount + 2;

inline constexpr std::size_t kNameBytes = 64;
inline constexpr std::size_t kTextBytes = 256;
inline constexpr std::size_t kPathBytes = 1024;
// Calls on communicators, each counted by itself. At the limit further ones are counted together, as of "(other
// communicators)", for which there is always room.
inline constexpr std::uint32_t kLedgerRows = 4096;

// The two groups that are no single communicator.
inline constexpr GroupId kOtherCommunicators{0, 0};
inline constexpr GroupId kGroupsOfOne{0, 1};
// Rows of this one are phases of the program (outrigger_phase_push): what was called in them is in others' rows, too.
inline constexpr GroupId kPhases{0, 2};

// Of one kind of call on one communicator; or of one phase, with calls, offloaded, measured, bytes and, as call_ns, the
// time that the program spent on all of them.
struct LedgerRow {
  GroupId group;
  std::uint32_t kind = 0;  // index_of(CallKind)
  std::uint32_t size = 0;  // of the communicator; 0: several, or not known
  std::array<char, kNameBytes> name{};
  std::uint64_t calls = 0;
  std::uint64_t offloaded = 0;
  std::array<std::uint64_t, kNativeReasons> native{};
  std::array<std::uint64_t, kAlgorithms.size()> algorithms{};  // offloaded by each, as kAlgorithms
  std::array<std::uint64_t, kByteKinds> reached{};             // bytes received, by reach
  std::uint64_t alone = 0;   // of native ones: in groups of one, where nobody has asked for this form to be offloaded
  std::uint64_t late = 0;    // peers that were ready before this rank posted
  std::int64_t post_ns = 0;  // of offloaded ones: in the starting call
  std::int64_t completion_ns = 0;  // of offloaded ones: in completion calls
  std::int64_t call_ns = 0;        // in the call itself
  std::int64_t wait_ns = 0;        // of native nonblocking ones: in completion calls
  std::uint64_t tests = 0;         // of nonblocking ones: completion calls that test, and the time in those
  std::int64_t test_ns = 0;
  std::uint64_t waited = 0;         // operations for which the program waited, without those that a test completed,
  std::int64_t before_wait_ns = 0;  // ... from their starting calls to these waits: what can be hidden
  std::int64_t hidden_ns = 0;       // of offloaded ones: what went on while the program did something else
  std::int64_t late_ns = 0;         // of offloaded ones: how long after the first rank of the group it was posted
  std::int64_t most_late_ns = 0;    // ... once
  std::uint64_t measured = 0;       // calls whose bytes are known
  std::uint64_t bytes = 0;          // that the rank handed over, in all those
  std::uint64_t least_bytes = 0;    // in one of them
  std::uint64_t most_bytes = 0;
  std::uint64_t entered = 0;   // a phase: how often
  std::int64_t inside_ns = 0;  // ... and for how long, without the phases inside it

  [[nodiscard]] bool is_phase() const { return group == kPhases; }
  // The time that the program spent on it.
  [[nodiscard]] std::int64_t time_ns() const;
};
static_assert(std::is_trivially_copyable_v<LedgerRow>);

enum class LedgerState : std::uint32_t {
  running = 0,
  finalized = 1,  // world rank 0: the whole job's report has been written; others: they have told it
  aborting = 2,   // has called MPI_Abort with `code`, or the library has for it
};

// How the service process of the rank runs.
struct ServiceFigures {
  std::uint32_t sp = 0;
  std::uint32_t processes = 0;  // of the node; 0: the job runs natively
  std::int32_t cpu = -1;
  std::uint32_t core_is_free = 0;
  std::uint32_t cross_memory_attach = 0;
  std::uint32_t xpmem = 0;
  // Part of the time in which the service process was runnable and others had its core, in parts of a million.
  std::uint32_t core_taken_ppm = kNotMeasured;
  std::int32_t other_job = 0;  // a process of another job that has had the core, too; -1: not known which; 0: none
  std::uint32_t restarts = 0;  // how often another service process has taken its place
  std::uint32_t reserved = 0;
  std::array<char, kTextBytes> warning{};  // why nothing is offloaded any more; empty: it is
  static constexpr std::uint32_t kNotMeasured = ~0U;

  void measured(std::uint64_t ran_ns, std::uint64_t waited_ns) {
    const double wanted_ns = static_cast<double>(ran_ns) + static_cast<double>(waited_ns);
    if (wanted_ns > 0) core_taken_ppm = static_cast<std::uint32_t>(1e6 * static_cast<double>(waited_ns) / wanted_ns);
  }
};

// What is known at the end only.
struct LastFigures {
  std::uint32_t known = 0;
  std::uint32_t wire_routes = 0;
  std::array<WireRoute, kMaxWireRoutes> routes{};
  std::int64_t process_cpu_ns = 0;
  std::uint64_t waiting_bytes = 0;  // copied by threads that waited
  std::uint64_t huge_bytes = 0;     // of buffers, moved to huge pages
};

struct LedgerHeader {
  std::uint64_t magic = 0;
  std::uint32_t world_rank = 0;
  std::uint32_t world_size = 0;
  std::uint32_t nodes = 1;
  std::uint32_t node = 0;
  std::uint32_t heap_is_used = 0;
  std::uint32_t row_count = 0;
  std::uint32_t state = 0;      // LedgerState
  std::int32_t code = 0;        // of `aborting`
  std::int64_t started_ns = 0;  // CLOCK_MONOTONIC of the node
  std::int64_t ended_ns = 0;    // 0: not yet
  std::int64_t cpu_in_calls_ns = 0;
  ServiceFigures service;
  LastFigures last;
  std::array<char, kNameBytes> mpi{};
  std::array<char, kTextBytes> native_because{};  // empty: offloaded
  std::array<char, kTextBytes> abort_text{};      // what the library said before it ended the job
  std::array<char, kPathBytes> path{};            // where the report goes
};
static_assert(std::is_trivially_copyable_v<LedgerHeader>);

// Copies what fits, and always ends it.
template <std::size_t bytes>
void set_text(std::array<char, bytes>& target, std::string_view text) {
  const std::size_t length = text.copy(target.data(), bytes - 1);
  target[length] = '\0';
}
// Also of what another process wrote.
template <std::size_t bytes>
[[nodiscard]] std::string text_in(const std::array<char, bytes>& text) {
  std::string found(text.data(), bytes);
  return found.substr(0, found.find('\0'));
}

// A mapped ledger. Owns the mapping and, where it was made here, its descriptor.
class Ledger {
 public:
  static constexpr std::uint64_t kBytes = sizeof(LedgerHeader) + kLedgerRows * sizeof(LedgerRow);

  // Blank.
  [[nodiscard]] static Result<Ledger> create();
  // The same, for this process alone: where the system shares no memory.
  [[nodiscard]] static Result<Ledger> create_private();
  // One that another process has made; without its descriptor, of which a keeper would need one a rank. Error: it is
  // none.
  [[nodiscard]] static Result<Ledger> open(UniqueFd fd);

  // -1: it has none.
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] LedgerHeader& header() const { return *reinterpret_cast<LedgerHeader*>(mapping_.base()); }
  // `index` below kLedgerRows.
  [[nodiscard]] LedgerRow& row(std::uint32_t index) const {
    return reinterpret_cast<LedgerRow*>(mapping_.base() + sizeof(LedgerHeader))[index];
  }
  // Header and rows in use: what is sent, and what summaries are made of.
  [[nodiscard]] std::span<const std::byte> bytes() const;

 private:
  [[nodiscard]] static Ledger blank(Mapping mapping);

  UniqueFd fd_;
  Mapping mapping_;
};

}  // namespace outrigger::report
