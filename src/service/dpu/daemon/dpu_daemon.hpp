// `outriggerd dpu`: runs on a DPU, started there by the launcher, and has the service processes of one host and job.
//
//   standard input    one line, the job's secret; its end is the end of this
//   standard output   one line, when it listens or why it cannot
//   TCP               the host's keeper (dpu_link.hpp)
//
// It ends when the job does, and leaves nothing.
#pragma once

#include <cstdint>
#include <string>

namespace outrigger::service {

struct DpuDaemonOptions {
  std::uint32_t services = 0;  // 0: one for eight ranks, at most one a core
  std::string bind;            // cpus for them; empty: not bound
};

// Returns the exit status.
[[nodiscard]] int run_dpu_daemon(const DpuDaemonOptions& options);

}  // namespace outrigger::service
