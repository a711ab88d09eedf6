// What a client can say of itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/shared/wire_route.hpp"

namespace outrigger::client {

struct ClientStatistics {
  std::uint64_t helped_bytes = 0;       // copied by help() so far
  std::uint64_t huge_bytes = 0;         // of the program's buffers, moved to huge pages so far
  std::uint64_t service_ran_ns = 0;     // how long its service process has run
  std::uint64_t service_waited_ns = 0;  // and wanted to, while others had its core
  std::uint32_t service_restarts = 0;   // how often another one has taken its place
  std::int32_t service_other_job = 0;   // a process of another job that has had its core, too; -1: not known which
  std::string service_warning;          // why nothing is offloaded any more; empty: it is
  std::vector<WireRoute> wire_routes;   // how the data of this rank's service process has travelled to other nodes so
                                        // far, each way once; at most kMaxWireRoutes
};

// Slots, staging and argument bytes in use. `without_slot`: operations not done that are in overflow records, or wait
// here. `kept`: operations that were kept, and dropped, which others have yet to read from: to be waited for before
// the end.
struct ClientUsage {
  std::size_t slots = 0;
  std::size_t without_slot = 0;
  std::size_t kept = 0;
  std::uint64_t argument_bytes = 0;
  std::uint64_t staging_bytes = 0;
  std::size_t regions = 0;
};

}  // namespace outrigger::client
