// Configuration of a keeper, given at its start.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/options/settings.hpp"
#include "protocol/wire/control.hpp"
#include "service/placement/core_claims.hpp"

namespace outrigger::service {

struct KeeperConfig {
  std::uint32_t world_size = 0;
  std::uint32_t local_size = 0;
  std::uint32_t nodes = 1;
  std::uint32_t keepers_here = 1;  // simulated nodes on this machine, which share its cores
  std::uint32_t number_here = 0;   // index of this keeper among them
  std::uint32_t services = 0;      // 0: automatic
  std::vector<int> service_cpus;   // empty: cores free of ranks
  Claimant claims;                 // for claiming cores
  std::uint32_t reach_allowed = kReachAll;
  // Limit for all ranks to appear and all service processes to be ready, from the keeper's start.
  std::uint32_t init_timeout_ms = setting::kInitTimeoutMs;
  pid_t leader_pid = 0;  // messages for people go to its standard error; 0: none
  bool traced = false;
  bool end_ranks = true;  // after a service process is lost for good: ranks that stay get SIGTERM and SIGKILL
  Secret secret{};
  std::vector<int> copy_cpus;  // of ranks' copiers beside a DPU; empty: none
  std::string dpu;             // HOST:PORT where `outriggerd dpu` listens; empty: service processes run on this node
  Secret dpu_secret{};         // shared with `outriggerd dpu`
};

}  // namespace outrigger::service
