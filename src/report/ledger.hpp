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
#include "report/window_figures.hpp"

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
// Rows of call sites. Calls from further sites have no such row.
inline constexpr std::uint32_t kMostSites = 512;
// The program and its libraries that call collectives.
inline constexpr std::uint32_t kMostObjects = 64;

// Ids that are not of a single communicator.
inline constexpr GroupId kOtherCommunicators{0, 0};
inline constexpr GroupId kGroupsOfOne{0, 1};
// Rows of this one are phases of the program (outrigger_phase_push, MPI_Pcontrol); their calls are counted in other
// rows, too.
inline constexpr GroupId kPhases{0, 2};
// Rows of this one are call sites; their calls are counted in other rows, too.
inline constexpr GroupId kSites{0, 3};

// A place in the code of the program or of a library.
struct CodePlace {
  std::uint64_t offset = 0;  // of the return address in its file, as debuggers count
  std::uint32_t object = 0;  // index in LedgerHeader::objects, plus 1; 0: unknown
  bool operator==(const CodePlace&) const = default;
};

// World ranks of a communicator, if they are `first`, `first` + `stride`, and so on.
struct Members {
  std::uint32_t first = 0;
  std::uint32_t stride = 0;  // 0: they are not, or are unknown
};

// One kind of call on one communicator, or from one place. Or one phase: then only calls, offloaded, measured and bytes
// are set, and call_ns is the time that the program spent on all of them.
struct LedgerRow {
  GroupId group;
  std::uint32_t kind = 0;  // index_of(CallKind)
  std::uint32_t size = 0;  // of the communicator; 0: several, or unknown
  std::array<char, kNameBytes> name{};
  Members members;  // of the communicator
  std::uint64_t calls = 0;
  std::uint64_t offloaded = 0;
  std::uint64_t by_ranks = 0;  // done by the ranks of a node among themselves
  std::int64_t saved_ns = 0;   // ... and so much faster than by the MPI, as trials have measured
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
  std::uint64_t entered = 0;    // only for a phase: how often
  std::int64_t inside_ns = 0;   // ... total time, without inner phases
  std::uint64_t meetings = 0;   // ... blocking calls in which all ranks of the job meet
  std::int64_t meeting_ns = 0;  // ... time in these, a part of call_ns
  CodePlace site;               // only for a call site: innermost frame outside the MPI
  CodePlace caller;             // ... if that is in a library: who called the library
  std::uint32_t waits = 0;      // ... 1: completion calls for such operations
  WindowFigures windows;        // ... if they are measured

  [[nodiscard]] bool is_phase() const { return group == kPhases; }
  [[nodiscard]] bool is_site() const { return group == kSites; }
  // A row of blocking calls in which all ranks of the job meet.
  [[nodiscard]] bool is_of_meetings(std::uint32_t world_size) const;
  // The rows whose sum is what the program has called.
  [[nodiscard]] bool is_call() const { return !is_phase() && !is_site(); }
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

// How a waiting rank gives its core away.
enum class WaitKind : std::uint32_t { native = 0, own_setting = 1, polite = 2 };
inline constexpr std::array<const char*, 3> kWaitKinds{"native", "own setting", "polite"};

// The rank's polite waits (mpi/polite). Several threads may add.
struct WaitFigures {
  std::uint32_t kind = 0;  // WaitKind
  std::uint32_t reserved = 0;
  std::uint64_t naps = 0;
  std::int64_t slept_ns = 0;
  std::int64_t yielded_ns = 0;             // in yields, from each call to its return
  std::int64_t waited_ns = 0;              // in all waits that have yielded or slept
  std::array<char, kNameBytes> setting{};  // of the MPI, that makes it yield; empty: none

  void add_pause(bool slept, std::int64_t pause_ns, std::int64_t wait_ns) {
    constexpr auto relaxed = std::memory_order_relaxed;
    if (slept) std::atomic_ref(naps).fetch_add(1, relaxed);
    std::atomic_ref(slept ? slept_ns : yielded_ns).fetch_add(pause_ns, relaxed);
    std::atomic_ref(waited_ns).fetch_add(wait_ns, relaxed);
  }
};

// The collective or waiting call that a thread is in, or was in last, for observers of the running job
// (mpi/report/present_call). The thread writes without the lock: an observer of a moving rank may see parts of two
// calls.
struct PresentCall {
  std::int64_t since_ns = 0;  // begin of the call, or its end if the thread has left it; 0: it has made none
  std::uint64_t ordinal = 0;  // of the calls of its kind on its communicator, from 1
  std::uint32_t inside = 0;   // 1: the thread is in it
  std::uint32_t row = 0;      // of its kind and communicator: index plus 1
  std::uint32_t site = 0;     // row of the call site: index plus 1; 0: unknown
  std::uint32_t waits = 0;    // 1: it waits for such an operation
  std::uint32_t thread = 0;   // the kernel's number; 0: this entry is free
  std::uint32_t reserved = 0;
};
// Threads with such an entry. Calls of further threads are not shown.
inline constexpr std::size_t kPresentCalls = 8;

// Calls that wait for a message, or for requests.
enum class MessageCall : std::uint32_t {
  send,
  bsend,
  ssend,
  rsend,
  recv,
  mrecv,
  sendrecv,
  sendrecv_replace,
  probe,
  mprobe,
  wait,
  waitall,
  waitany,
  waitsome
};
inline constexpr std::array kMessageCalls{"MPI_Send",    "MPI_Bsend",   "MPI_Ssend",    "MPI_Rsend",
                                          "MPI_Recv",    "MPI_Mrecv",   "MPI_Sendrecv", "MPI_Sendrecv_replace",
                                          "MPI_Probe",   "MPI_Mprobe",  "MPI_Wait",     "MPI_Waitall",
                                          "MPI_Waitany", "MPI_Waitsome"};

// Instead of a world rank.
inline constexpr std::int32_t kNoSide = -1;      // the call does not send, or does not receive
inline constexpr std::int32_t kAnySource = -2;   // MPI_ANY_SOURCE
inline constexpr std::int32_t kNoProcess = -3;   // MPI_PROC_NULL
inline constexpr std::int32_t kOtherWorld = -4;  // a process outside of this MPI_COMM_WORLD
inline constexpr std::int32_t kAnyTag = -1;      // MPI_ANY_TAG, instead of a tag

// The other side of a message.
struct MessagePeer {
  std::int32_t rank = kNoSide;
  std::int32_t tag = 0;
};

// The same for calls that wait for messages or requests, and only with live data (mpi/report/present_message).
struct PresentMessage {
  std::int64_t since_ns = 0;  // begin of the call, or its end if the thread has left it
  std::uint64_t calls = 0;    // such calls of this thread until now, with this one
  std::uint32_t inside = 0;   // 1: the thread is in it
  std::uint32_t call = 0;     // MessageCall
  std::uint32_t thread = 0;   // the kernel's number; 0: this entry is free
  std::uint32_t requests = 0;
  MessagePeer to;
  MessagePeer from;
  CodePlace site;
  CodePlace caller;
  std::uint32_t has_name = 0;           // 0: the communicator is not known
  std::uint32_t size = 0;               // of the communicator; 0: not known
  std::array<char, kNameBytes> name{};  // of the communicator
};
inline constexpr std::size_t kPresentMessages = 8;

// Known only at the end.
struct LastFigures {
  std::uint32_t known = 0;
  std::uint32_t wire_routes = 0;
  std::array<WireRoute, kMaxWireRoutes> routes{};
  std::int64_t process_cpu_ns = 0;
  std::uint64_t waiting_bytes = 0;  // copied by waiting threads
  std::uint64_t spare_bytes = 0;    // copied by its copier on a spare core
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
  WaitFigures waits;
  LastFigures last;
  std::array<PresentCall, kPresentCalls> present{};
  std::uint32_t shows_messages = 0;  // 1: `messages` is kept
  std::uint32_t reserved = 0;
  std::array<PresentMessage, kPresentMessages> messages{};
  std::array<char, kNameBytes> mpi{};
  std::array<char, kNameBytes> program{};                            // base/program_name.hpp
  std::array<char, kTextBytes> native_because{};                     // empty: offloaded
  std::array<char, kTextBytes> abort_text{};                         // the library's message before it ended the job
  std::array<char, kPathBytes> path{};                               // where the report goes
  std::array<std::array<char, kTextBytes>, kMostObjects> objects{};  // paths of files with call sites
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
