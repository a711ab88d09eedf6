// The processes of a group's members on this node, and whether one has ended. A descriptor of each is kept,
// so that a process id that is used again is no member.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "base/unique_fd.hpp"

namespace outrigger::group {

class MemberProcesses {
 public:
  explicit MemberProcesses(std::vector<pid_t> pids);
  [[nodiscard]] const std::vector<pid_t>& pids() const { return pids_; }
  [[nodiscard]] pid_t pid(std::uint32_t member) const { return pids_[member]; }
  // Also true for one that its parent has not waited for yet.
  [[nodiscard]] bool has_ended(std::uint32_t member) const;

 private:
  std::vector<pid_t> pids_;
  std::vector<UniqueFd> descriptors_;
};

}  // namespace outrigger::group
