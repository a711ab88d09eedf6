// `outriggerd dpu`: the launcher starts it on a DPU. It runs the service processes of one host and job.
//
//   standard input    one line: the job's secret; this process ends when the input ends
//   standard output   one line: that it listens, or why it cannot
//   TCP               the host's keeper (dpu_link.hpp)
//
// It ends with the job and leaves nothing behind.
#pragma once

#include <cstdint>
#include <string>

namespace outrigger::service {

struct DpuDaemonOptions {
  std::uint32_t services = 0;  // 0: one for every eight ranks, at most one per core
  std::string bind;            // their cpus; empty: not bound
};

[[nodiscard]] int run_dpu_daemon(const DpuDaemonOptions& options);

}  // namespace outrigger::service
