// How a rank attaches to its keeper.
#pragma once

#include <cstdint>
#include <string>

#include "client/start/keeper_start.hpp"
#include "protocol/ids.hpp"
#include "protocol/options/settings.hpp"

namespace outrigger::client {

struct AttachOptions {
  KeeperAddress keeper;
  WorldRank world_rank;
  std::uint32_t world_size = 0;
  std::uint32_t local_rank = 0;
  std::uint32_t local_size = 0;
  // The keeper's limit. It is given a moment longer, in which it says why nobody is served.
  std::uint32_t init_timeout_ms = setting::kInitTimeoutMs;
  bool offer_xpmem = true;    // where it is to be had
  bool offer_exports = true;  // to a DPU: exported memory handles, where they are to be had
  bool wait_copies = true;    // threads that wait copy for the service process, where there are copiers
  bool huge_pages = true;     // for memory that is copied from again and again, where there are copiers
  bool dpu = false;           // the keeper was started with a DPU
  std::string transports;     // to it, as UCX_TLS; empty: what UCX's own settings name
};

}  // namespace outrigger::client
