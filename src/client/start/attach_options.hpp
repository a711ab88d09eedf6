// Options for attaching a rank to its keeper.
#pragma once

#include <cstdint>
#include <string>

#include "client/copies/spare_copier.hpp"
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
  // The keeper's limit. The rank waits slightly longer, so that the keeper can report a failure.
  std::uint32_t init_timeout_ms = setting::kInitTimeoutMs;
  bool offer_xpmem = true;    // if available
  bool offer_exports = true;  // exported memory handles, to a DPU
  bool wait_copies = true;    // waiting threads copy, if there are copiers
  bool huge_pages = true;     // likewise, for often copied memory
  bool dpu = false;           // the keeper has a DPU
  SpareCores spare_cores{};   // for copies within the host, with a DPU
  std::string transports;     // to the DPU, as UCX_TLS; empty: UCX's own settings
};

}  // namespace outrigger::client
