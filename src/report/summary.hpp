// The ranks' ledgers put together: what a report says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "report/ledger.hpp"

namespace outrigger::report {

// Figures of several ranks put together.
struct Spread {
  double sum = 0;
  double min = 0;
  double max = 0;
  std::uint32_t least = 0;  // the world rank that has the smallest
  std::uint32_t most = 0;
  std::uint32_t ranks = 0;
  void add(double value, std::uint32_t rank);
};

// Of one call on one communicator.
struct CallFigures {
  LedgerRow total;
  Spread seconds;  // on it, of each rank
};

// Of one collective on one communicator: what could have been offloaded, whatever the form.
struct CollectiveFigures {
  LedgerRow total;
  Spread post;
  Spread completion;
};

// Of one phase of the program, by its name.
struct PhaseFigures {
  LedgerRow total;
  Spread inside;       // seconds in it, without the phases inside it, of each rank that was
  Spread collectives;  // of these in collectives and in what waits for them
};

struct WireUse {
  WireRoute route;
  std::uint32_t nodes = 0;  // whose service processes used it
};

struct ServiceOfNode {
  std::uint32_t node = 0;
  ServiceFigures figures;
};

// How the job ended.
struct Ending {
  // "finalized"; "running" until it has ended; "aborted" by a rank; "exited" without MPI_Finalize; "signal"; "lost":
  // ranks have gone and nothing more is known; "ended": the library has ended it.
  std::string how = "running";
  std::optional<std::int32_t> code;  // of MPI_Abort, or the exit status
  std::optional<std::int32_t> signal;
  std::optional<std::uint32_t> rank;  // of the world, whose end this is
  std::string text;                   // for people; may be empty
};

struct Summary {
  std::string mpi;
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
  Spread run_seconds;
  Spread cpu_calls;
  Spread cpu_process;  // of those that have said so
  std::uint64_t waiting_bytes = 0;
  std::uint64_t huge_bytes = 0;

  [[nodiscard]] const ServiceFigures& service() const;  // of the first node
};

// Ascending numbers, from and to.
using Range = std::pair<std::uint32_t, std::uint32_t>;
[[nodiscard]] std::vector<Range> ranges_of(const std::vector<std::uint32_t>& numbers);

// A ledger, as Ledger::bytes() gives them, copied out of memory that another process writes: with rows whose kinds are
// known, whose times are possible and whose names end. Nothing: it is none.
struct CheckedLedger {
  LedgerHeader header;
  std::vector<LedgerRow> rows;
};
[[nodiscard]] std::optional<CheckedLedger> check_ledger(std::span<const std::byte> ledger);

// Adds a ledger, as Ledger::bytes() gives them. `now_ns`: the end of ranks that have not noted theirs. False: it is
// none, and nothing was added. Ledgers come in the order of the ranks.
bool add_ledger(Summary& summary, std::span<const std::byte> ledger, std::int64_t now_ns);

}  // namespace outrigger::report
