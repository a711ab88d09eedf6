// A call of the program as the trace gets it.
#pragma once

#include <cstdint>
#include <optional>

#include "mpi/native/abi.hpp"
#include "protocol/collective_calls.hpp"
#include "protocol/ids.hpp"
#include "report/ledger.hpp"

namespace outrigger::mpi {

struct CommRecord;

// What became of an offloaded call.
struct TracedPost {
  GroupId group;  // as service processes know it: of persistent collectives another one than the communicator's
  std::uint64_t sequence = 0;
  std::size_t algorithm = 0;           // index_of()
  CommRecord* record = nullptr;        // of the communicator
  std::uint32_t size = 0;              // its
  std::optional<std::uint64_t> bytes;  // that are handed over, where the operation knows
};

struct TracedCall {
  CallKind kind;
  std::int64_t began_ns = 0;
  std::uint64_t bytes = 0;
  CommRecord* record = nullptr;    // of the communicator
  std::optional<TracedPost> post;  // nothing: it went natively, for the reason
  report::NativeReason reason = report::NativeReason::none;
  const MPI_Request* request = nullptr;  // that the call has made; null: it makes none
};

}  // namespace outrigger::mpi
