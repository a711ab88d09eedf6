// The keeper's part in nodes getting to know each other: its node's descriptor goes to the node leader, all nodes'
// come back from it as the job map, which goes to every service process, and the leader hears whether all took it.
#pragma once

#include <bitset>
#include <cstdint>
#include <vector>

#include "service/keeper/nodes/other_nodes.hpp"
#include "service/keeper/ranks/local_ranks.hpp"

namespace outrigger::service {

class JobMapExchange {
 public:
  // Both must outlive this. `nodes` is told what the job map says, and where those are that have been started again.
  JobMapExchange(const KeeperConfig& config, OtherNodes& nodes) : config_(config), nodes_(nodes) {}

  // Where a service process of this node, which has been started for the `times`-th time, is to be reached. Error: it
  // is not an address.
  [[nodiscard]] Status take_address(std::uint32_t sp, std::uint32_t times, const SharedBytesBody& body,
                                    const UniqueFd& fd);
  // Do all have one, so that the descriptor can be written? In a job of one node nobody asks.
  [[nodiscard]] bool ready(std::uint32_t services) const;
  [[nodiscard]] Status send_descriptor(LocalRanks& ranks) const;
  // What a rank has handed back; service processes, to which it goes next, look at what is in it. Error: nobody has
  // asked this rank, now.
  [[nodiscard]] Status take_job_map(std::uint32_t local_rank, const SharedBytesBody& body, const UniqueFd& fd);
  // A service process has taken it, or not. True: this is what the leader is to be told of all of them.
  [[nodiscard]] bool taken(std::uint32_t sp, const JobMapTakenBody& body, std::uint32_t services);

 private:
  const KeeperConfig& config_;
  OtherNodes& nodes_;
  std::vector<std::vector<std::byte>> addresses_;  // by service process
  std::vector<std::uint32_t> times_;               // by service process: how often that has been started
  bool passed_ = false;
  bool answered_ = false;
  std::bitset<kMaxServices> taken_;  // by these
};

}  // namespace outrigger::service
