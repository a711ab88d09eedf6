// How this service process reaches the memory of a rank of its node: tested on a word that the rank reserves for that.
#pragma once

#include <cstdint>
#include <memory>

#include "fabric/host/lanes/xpmem_windows.hpp"
#include "protocol/wire/control.hpp"

namespace outrigger::service {

struct RankReach {
  std::uint32_t reach = 0;                        // kReach* bits
  std::unique_ptr<fabric::XpmemWindows> windows;  // with kReachXpmem
};

[[nodiscard]] RankReach probe_rank(const RankJoinedBody& rank, const ConfigureBody& configuration);

}  // namespace outrigger::service
