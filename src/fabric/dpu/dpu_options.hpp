#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace outrigger::fabric::dpu {

struct DpuOptions {
  std::string transports;  // as UCX_TLS; empty: UCX's own settings
  // Time from the connection until the rank's memory is reached; a network that needs the rank's help never answers.
  // The trial of exported handles has the same limit, after which they are not used.
  std::chrono::milliseconds attach_limit{4000};
  bool stands_by = false;  // ranks drive their networks only now and then, so they have no time limit
  std::uint64_t chunk_bytes = 256U << 10;
  std::size_t buffers = 32;  // chunks in flight by staging, and as many by alias; at the limit moves wait
  bool alias = true;         // used if it works
  bool host_copies = true;   // ranks that wait copy within the host
};

}  // namespace outrigger::fabric::dpu
