// The ranks' ledgers combined into the content of a report.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/ledger.hpp"

namespace outrigger::report {

// Figures of several ranks combined.
struct Spread {
  double sum = 0;
  double min = 0;
  double max = 0;
  std::uint32_t least = 0;  // the world rank with the smallest value
  std::uint32_t most = 0;
  std::uint32_t ranks = 0;
  void add(double value, std::uint32_t rank);
};

// One call on one communicator.
struct CallFigures {
  LedgerRow total;
  Spread seconds;  // time per rank
};

// One collective on one communicator: calls of any form that could have been offloaded.
struct CollectiveFigures {
  LedgerRow total;
  Spread post;
  Spread completion;
  Spread late;  // posted this long after the first rank of the group
};

// One kind of call from one place of the program.
struct SiteKey {
  std::size_t kind = 0;  // index_of(CallKind)
  bool waits = false;    // completion calls for these
  std::string object;    // empty: unknown
  std::uint64_t offset = 0;
  std::string caller_object;  // empty: no library is in between
  std::uint64_t caller_offset = 0;
  auto operator<=>(const SiteKey&) const = default;
};

// One phase of the program, by name.
struct PhaseFigures {
  LedgerRow total;
  Spread inside;       // seconds per rank that entered it, without inner phases
  Spread collectives;  // part of these in collectives and completion calls
  Spread outside;      // the rest of them
  Spread meetings;     // blocking calls in which all ranks of the job meet: their number
  Spread meeting;      // ... seconds in them
  Spread other;        // seconds in other collectives and in completion calls
};

struct WireUse {
  WireRoute route;
  std::uint32_t nodes = 0;  // number of nodes that used it
};

struct ServiceOfNode {
  std::uint32_t node = 0;
  ServiceFigures figures;
};

// Waits inside the MPI.
struct WaitSums {
  std::uint32_t kind = 0;  // WaitKind; of the rank with the highest
  std::string setting;     // of the first rank with one
  std::uint64_t naps = 0;
  Spread slept;
  Spread yielded;
  Spread waited;
};

// How the job ended.
inline constexpr std::array<std::string_view, 7> kEndings{"finalized", "running", "aborted", "exited",
                                                          "signal",    "lost",    "ended"};

struct Ending {
  // "finalized"; "running" until it has ended; "aborted" by a rank; "exited" without MPI_Finalize; "signal"; "lost":
  // ranks have ended and nothing else is known; "ended" by the library.
  std::string how = "running";
  std::optional<std::int32_t> code;  // of MPI_Abort, or the exit status
  std::optional<std::int32_t> signal;
  std::optional<std::uint32_t> rank;  // world rank that ended this way
  std::string text;                   // for people; may be empty
  static constexpr void fields(auto& io, auto& ended) {
    io.list(ended.how, kTextBytes);
    io.require(std::ranges::find(kEndings, std::string_view(ended.how)) != kEndings.end());
    io.optional(ended.code);
    io.optional(ended.signal);
    io.optional(ended.rank);
    io.list(ended.text, kTextBytes);
  }
};

struct Summary {
  std::string mpi;
  std::string program;  // of the first counted rank
  std::string native_because;
  std::uint32_t world_size = 0;
  std::uint32_t nodes = 1;
  bool heap_is_used = false;
  SharedHeapCounts heap;
  Ending ended;
  std::vector<std::uint32_t> counted;  // world ranks, ascending
  std::vector<WireUse> wire;
  std::vector<ServiceOfNode> services;                                       // each once
  std::map<std::pair<std::size_t, GroupId>, CallFigures> calls;              // by index_of(CallKind)
  std::map<std::pair<std::size_t, GroupId>, CollectiveFigures> collectives;  // by index_of(Collective)
  std::map<std::string, PhaseFigures> phases;
  std::map<SiteKey, CallFigures> sites;
  Spread run_seconds;
  Spread outside_seconds;  // of these, outside collectives and completion calls
  Spread cpu_calls;
  Spread cpu_process;  // of ranks that have reported it
  WaitSums waits;
  std::uint64_t waiting_bytes = 0;
  std::uint64_t spare_bytes = 0;
  std::uint64_t huge_bytes = 0;

  [[nodiscard]] const ServiceFigures& service() const;  // of the first node
};

// First and last of consecutive numbers.
using Range = std::pair<std::uint32_t, std::uint32_t>;
[[nodiscard]] std::vector<Range> ranges_of(const std::vector<std::uint32_t>& numbers);

// A copy of a ledger (from Ledger::bytes()) that another process writes: with known kinds, possible times and
// terminated names. nullopt: it is malformed.
struct CheckedLedger {
  LedgerHeader header;
  std::vector<LedgerRow> rows;
};
[[nodiscard]] std::optional<CheckedLedger> check_ledger(std::span<const std::byte> ledger);

// Path of the place's file, from a checked ledger; empty: unknown.
[[nodiscard]] std::string object_of(const LedgerHeader& header, const CodePlace& place);

// Adds a ledger (from Ledger::bytes()), in the order of the ranks. `now_ns`: the end of ranks that have not recorded
// theirs. False: it is malformed and was not added.
bool add_ledger(Summary& summary, std::span<const std::byte> ledger, std::int64_t now_ns);

}  // namespace outrigger::report
