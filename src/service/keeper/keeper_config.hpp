// What a keeper is told when it is started.
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
  std::uint32_t nodes = 1;         // of the job
  std::uint32_t keepers_here = 1;  // nodes that this machine pretends to be; they share its cores
  std::uint32_t number_here = 0;   // which of them this is
  std::uint32_t services = 0;      // 0: by itself
  std::vector<int> service_cpus;   // empty: cores free of ranks
  Claimant claims;                 // of cores
  std::uint32_t reach_allowed = kReachAll;
  // For all ranks to appear and the service processes to be ready, from the keeper's start on.
  std::uint32_t init_timeout_ms = setting::kInitTimeoutMs;
  pid_t leader_pid = 0;   // 0: none; the job's messages for people go to its standard error
  bool traced = false;    // there is to be a trace
  bool end_ranks = true;  // SIGTERM and SIGKILL for ranks that stay after a service process has died
  Secret secret{};
  std::string dpu;      // HOST:PORT where `outriggerd dpu` listens; empty: service processes run on this node
  Secret dpu_secret{};  // which it knows, too
};

}  // namespace outrigger::service
