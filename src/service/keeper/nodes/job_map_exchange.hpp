// The keeper's part in connecting the nodes. It sends its node's descriptor to the node leader, and receives the
// descriptors of all nodes as the job map. It passes the map to every service process, and tells the leader if all took
// it.
#pragma once

#include <bitset>
#include <cstdint>
#include <vector>

#include "service/keeper/nodes/other_nodes.hpp"
#include "service/keeper/ranks/local_ranks.hpp"

namespace outrigger::service {

class JobMapExchange {
 public:
  // Both must outlive this. `nodes` gets the job map and the addresses of restarted service processes.
  JobMapExchange(const KeeperConfig& config, OtherNodes& nodes) : config_(config), nodes_(nodes) {}

  // Takes the address of a service process of this node that has been started `times` times. Error: not an address.
  [[nodiscard]] Status take_address(std::uint32_t sp, std::uint32_t times, const SharedBytesBody& body,
                                    const UniqueFd& fd);
  // True if all have an address, so that the descriptor can be written. Jobs of one node need none.
  [[nodiscard]] bool ready(std::uint32_t services) const;
  [[nodiscard]] Status send_descriptor(LocalRanks& ranks) const;
  // Takes the job map from a rank; the service processes check its content. Error: this rank was not asked now.
  [[nodiscard]] Status take_job_map(std::uint32_t local_rank, const SharedBytesBody& body, const UniqueFd& fd);
  // A service process has taken the map, or refused it. True: `body` is the result for the leader.
  [[nodiscard]] bool taken(std::uint32_t sp, const JobMapTakenBody& body, std::uint32_t services);

 private:
  const KeeperConfig& config_;
  OtherNodes& nodes_;
  std::vector<std::vector<std::byte>> addresses_;  // by service process
  std::vector<std::uint32_t> times_;               // by service process: number of starts
  bool passed_ = false;
  bool answered_ = false;
  std::bitset<kMaxServices> taken_;  // by these service processes
};

}  // namespace outrigger::service
