// A node's live figures: counts of ranks, what the kernel and the ranks' segments say of service processes, and the
// wire counters of service processes here and on a DPU.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string_view>

#include "report/live.hpp"
#include "service/dpu/host/figures_of_dpu.hpp"
#include "service/keeper/nodes/other_nodes.hpp"
#include "service/keeper/observe/job_counts.hpp"
#include "service/keeper/ranks/local_ranks.hpp"
#include "service/keeper/supervise/services.hpp"

namespace outrigger::service {

[[nodiscard]] report::LiveNode live_node(const std::string& job, const JobCounts& counts, const LocalRanks& ranks,
                                         const Services& services, const OtherNodes& nodes,
                                         const FiguresOfADpu& of_dpu);

// A process's time on a core, and its time runnable without one. Both 0: the kernel does not count.
struct CoreUse {
  std::uint64_t ran_ns = 0;
  std::uint64_t waited_ns = 0;
};
[[nodiscard]] CoreUse parse_schedstat(std::string_view text);
[[nodiscard]] CoreUse core_use_of(pid_t pid);

}  // namespace outrigger::service
