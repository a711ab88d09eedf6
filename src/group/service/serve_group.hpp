// The service process of a group: `outriggerd group`, which a member starts on a kept core.
#pragma once

#include <sys/types.h>

#include <vector>

namespace outrigger::group {

struct ServedGroup {
  std::vector<pid_t> pids;  // of the members
  std::vector<int> cpus;    // that it may run on
};

// With the group's ServiceArea at descriptor 3. Goes to the background: the calling process ends with the returned
// status, and its child serves until all members have ended or left the group.
[[nodiscard]] int serve_group(const ServedGroup& group);

}  // namespace outrigger::group
