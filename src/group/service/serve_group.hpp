// The service process of a group: `outriggerd group`, which a member starts on a kept core.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace outrigger::group {

struct ServedGroup {
  std::vector<pid_t> pids;  // of the node's members
  std::vector<int> cpus;    // that it may run on
  // Of a group on several nodes: of each member, the first one of its node. And the first one of this node.
  std::vector<std::uint32_t> first_of{};
  std::uint32_t rank = 0;
};

// With the group's ServiceArea at descriptor 3, and connections to the service processes of the other nodes at the
// following ones, in the order of nodes. Goes to the background: the calling process ends with the returned
// status, and its child serves until all members have ended or left the group.
[[nodiscard]] int serve_group(const ServedGroup& group);

}  // namespace outrigger::group
