// The counts of one rank for the report, in sealed shared memory that outlives it. The rank writes. World rank 0 gets
// all ledgers at MPI_Finalize. If ranks end without it, the keeper reads those of its node.
//
// Thread rule: the rank writes under a lock of its own. A ledger of another process may be in the middle of an update
// or contain anything: readers check everything (summary.hpp).
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
#include "report/native_reason.hpp"

namespace outrigger::report {

// bytes[]: the reaches, then:
inline constexpr std::size_t kOwnBytes = kReachCount;
inline constexpr std::size_t kBounceBytes = kReachCount + 1;
inline constexpr std::size_t kByteKinds = kReachCount + 2;

inline constexpr std::size_t kNameBytes = 64;
inline constexpr std::size_t kTextBytes = 256;
inline constexpr std::size_t kPathBytes = 1024;
// Calls by kind and communicator. When full, further ones are counted together as "(other communicators)", which always
// has a row.
inline constexpr std::uint32_t kLedgerRows = 4096;

// Ids that are not of a single communicator.
inline constexpr GroupId kOtherCommunicators{0, 0};
inline constexpr GroupId kGroupsOfOne{0, 1};
// Rows of this one are phases of the program (outrigger_phase_push); their calls are counted in other rows, too.
inline constexpr GroupId kPhases{0, 2};

// One kind of call on one communicator; or one phase, with calls, offloaded, measured, bytes, and in call_ns the time
// that the program spent on all of them.
struct LedgerRow {
  GroupId group;
  std::uint32_t kind = 0;  // index_of(CallKind)
  std::uint32_t size = 0;  // of the communicator; 0: several, or unknown
  std::array<char, kNameBytes> name{};
  std::uint64_t calls = 0;
  std::uint64_t offloaded = 0;
  std::uint64_t by_ranks = 0;  // done by the ranks of a node among themselves
  std::array<std::uint64_t, kNativeReasons> native{};
  std::array<std::uint64_t, kAlgorithms.size()> algorithms{};  // offloaded by each, as kAlgorithms
  std::array<std::uint64_t, kByteKinds> reached{};             // bytes received, by reach
  std::uint64_t alone = 0;         // native calls in groups of one, when this form is not offloaded
  std::uint64_t late = 0;          // peers that were ready before this rank posted
  std::int64_t post_ns = 0;        // offloaded: in the starting call
  std::int64_t completion_ns = 0;  // offloaded: in completion calls
  std::int64_t call_ns = 0;        // in the call itself
  std::int64_t wait_ns = 0;        // native nonblocking: in completion calls
  std::uint64_t tests = 0;         // nonblocking: number of testing completion calls, and their time
  std::int64_t test_ns = 0;
  std::uint64_t waited = 0;         // operations for which the program waited, without those completed by a test,
  std::int64_t before_wait_ns = 0;  // ... time from their starting calls to these waits: what can be hidden
  std::int64_t hidden_ns = 0;       // offloaded: progress while the program did something else
  std::int64_t late_ns = 0;         // offloaded: posted this long after the first rank of the group
  std::int64_t most_late_ns = 0;    // ... the longest
  std::uint64_t measured = 0;       // calls with known sizes
  std::uint64_t bytes = 0;          // handed over by the rank, in these calls
  std::uint64_t least_bytes = 0;    // in one of these calls
  std::uint64_t most_bytes = 0;
  std::uint64_t entered = 0;   // only for a phase: how often
  std::int64_t inside_ns = 0;  // ... total time, without inner phases

  [[nodiscard]] bool is_phase() const { return group == kPhases; }
  // Time that the program spent in these calls.
  [[nodiscard]] std::int64_t time_ns() const;
};
static_assert(std::is_trivially_copyable_v<LedgerRow>);

enum class LedgerState : std::uint32_t {
  running = 0,
  finalized = 1,  // world rank 0: the report is written; others: they have sent their ledgers
  aborting = 2,   // the program or the library has called MPI_Abort with `code`
};

// How the rank's service process runs.
struct ServiceFigures {
  std::uint32_t sp = 0;
  std::uint32_t processes = 0;  // on the node; 0: the job runs natively
  std::int32_t cpu = -1;
  std::uint32_t core_is_free = 0;
  std::uint32_t cross_memory_attach = 0;
  std::uint32_t xpmem = 0;
  // Share of the time in which the service process was runnable and others had its core, in ppm.
  std::uint32_t core_taken_ppm = kNotMeasured;
  std::int32_t other_job = 0;  // a process of another job that also has the core; -1: unknown process; 0: none
  std::uint32_t restarts = 0;  // how often it was replaced
  std::uint32_t reserved = 0;
  std::array<char, kTextBytes> warning{};  // why nothing is offloaded any more; empty: offloading works
  static constexpr std::uint32_t kNotMeasured = ~0U;

  void measured(std::uint64_t ran_ns, std::uint64_t waited_ns) {
    const double wanted_ns = static_cast<double>(ran_ns) + static_cast<double>(waited_ns);
    if (wanted_ns > 0) core_taken_ppm = static_cast<std::uint32_t>(1e6 * static_cast<double>(waited_ns) / wanted_ns);
  }
};

// Known only at the end.
struct LastFigures {
  std::uint32_t known = 0;
  std::uint32_t wire_routes = 0;
  std::array<WireRoute, kMaxWireRoutes> routes{};
  std::int64_t process_cpu_ns = 0;
  std::uint64_t waiting_bytes = 0;  // copied by waiting threads
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
  std::int32_t code = 0;        // if `aborting`
  std::int64_t started_ns = 0;  // CLOCK_MONOTONIC of the node
  std::int64_t ended_ns = 0;    // 0: still running
  std::int64_t cpu_in_calls_ns = 0;
  ServiceFigures service;
  LastFigures last;
  std::array<char, kNameBytes> mpi{};
  std::array<char, kTextBytes> native_because{};  // empty: offloaded
  std::array<char, kTextBytes> abort_text{};      // the library's message before it ended the job
  std::array<char, kPathBytes> path{};            // where the report goes
};
static_assert(std::is_trivially_copyable_v<LedgerHeader>);

// Copies what fits; always NUL-terminated.
template <std::size_t bytes>
void set_text(std::array<char, bytes>& target, std::string_view text) {
  const std::size_t length = text.copy(target.data(), bytes - 1);
  target[length] = '\0';
}
// Safe for text of another process.
template <std::size_t bytes>
[[nodiscard]] std::string text_in(const std::array<char, bytes>& text) {
  std::string found(text.data(), bytes);
  return found.substr(0, found.find('\0'));
}

// A mapped ledger. Owns the mapping and, if it was made here, its descriptor.
class Ledger {
 public:
  static constexpr std::uint64_t kBytes = sizeof(LedgerHeader) + kLedgerRows * sizeof(LedgerRow);

  // Makes an empty ledger.
  [[nodiscard]] static Result<Ledger> create();
  // The same, for this process only: for systems without shared memory.
  [[nodiscard]] static Result<Ledger> create_private();
  // Maps a ledger of another process and closes its descriptor; a keeper would need one per rank. Error: not a ledger.
  [[nodiscard]] static Result<Ledger> open(UniqueFd fd);

  // -1 if it has none.
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] LedgerHeader& header() const { return *reinterpret_cast<LedgerHeader*>(mapping_.base()); }
  // `index` below kLedgerRows.
  [[nodiscard]] LedgerRow& row(std::uint32_t index) const {
    return reinterpret_cast<LedgerRow*>(mapping_.base() + sizeof(LedgerHeader))[index];
  }
  // The header and the used rows: the form in which ledgers are sent and summarized.
  [[nodiscard]] std::span<const std::byte> bytes() const;

 private:
  [[nodiscard]] static Ledger blank(Mapping mapping);

  UniqueFd fd_;
  Mapping mapping_;
};

}  // namespace outrigger::report
