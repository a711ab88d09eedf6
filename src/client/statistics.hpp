// A client's counts, for the report and for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/shared/wire_route.hpp"

namespace outrigger::client {

struct ClientStatistics {
  std::uint64_t helped_bytes = 0;       // copied by help() so far
  std::uint64_t spare_bytes = 0;        // by its copier on a spare core
  std::uint64_t huge_bytes = 0;         // of the program's buffers, moved to huge pages so far
  std::uint64_t service_ran_ns = 0;     // run time of its service process
  std::uint64_t service_waited_ns = 0;  // time in which it was runnable, while others had its core
  std::uint32_t service_restarts = 0;   // how often it was replaced
  std::int32_t service_other_job = 0;   // a process of another job that also used its core; -1: unknown
  std::string service_warning;          // why offloading has ended; empty: it has not
  std::vector<WireRoute> wire_routes;   // its routes to other nodes so far, each once; at most kMaxWireRoutes
};

// Slots, staging and argument bytes in use. `without_slot`: unfinished operations that wait or are in overflow records.
// `kept`: dropped operations that peers still have to read, to be waited for before the end.
struct ClientUsage {
  std::size_t slots = 0;
  std::size_t without_slot = 0;
  std::size_t kept = 0;
  std::uint64_t argument_bytes = 0;
  std::uint64_t staging_bytes = 0;
  std::size_t regions = 0;
};

}  // namespace outrigger::client
