// A call of the program, for the trace.
#pragma once

#include <cstdint>
#include <optional>

#include "mpi/native/abi.hpp"
#include "protocol/collective_calls.hpp"
#include "protocol/ids.hpp"
#include "report/ledger.hpp"

namespace outrigger::mpi {

struct CommRecord;

// Result of an offloaded call.
struct TracedPost {
  GroupId group;  // as service processes know it: persistent collectives have their own
  std::uint64_t sequence = 0;
  std::size_t algorithm = 0;           // index_of()
  CommRecord* record = nullptr;        // of the communicator
  std::uint32_t size = 0;              // of the communicator
  std::optional<std::uint64_t> bytes;  // sent bytes, if the operation knows them
};

struct TracedCall {
  CallKind kind;
  std::int64_t began_ns = 0;
  std::uint64_t bytes = 0;
  CommRecord* record = nullptr;    // of the communicator
  std::optional<TracedPost> post;  // nullopt: the ranks did it, or it went natively, for the reason
  bool by_ranks = false;
  report::NativeReason reason = report::NativeReason::none;
  const MPI_Request* request = nullptr;  // made by the call; nullptr: it makes none
};

}  // namespace outrigger::mpi
