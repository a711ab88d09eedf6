#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace outrigger::fabric::dpu {

struct DpuOptions {
  std::string transports;  // as UCX_TLS; empty: what UCX's own settings name
  // From the connection to the rank's memory being reached; a network that cannot without the rank never answers. As
  // long again for the trial of exported handles: what takes longer is not used, and holds up nobody.
  std::chrono::milliseconds attach_limit{4000};
  bool stands_by = false;  // ranks let their networks work now and then only: they are waited for without a limit
  std::uint64_t chunk_bytes = 256U << 10;
  std::size_t buffers = 32;  // chunks under way by staging, and as many by alias; at the limit moves wait
  bool alias = true;         // where it works
};

}  // namespace outrigger::fabric::dpu
