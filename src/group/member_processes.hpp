// The processes of a group's members on this node, and whether one has ended. A descriptor of each is kept,
// so that a process id that is used again is no member. The groups of a process share these descriptors.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace outrigger::group {

class MemberProcesses {
 public:
  // An error if this process can open no more files.
  [[nodiscard]] static Result<MemberProcesses> open(std::vector<pid_t> pids);
  [[nodiscard]] pid_t pid(std::uint32_t member) const { return pids_[member]; }
  // Also true for one that its parent has not waited for yet.
  [[nodiscard]] bool has_ended(std::uint32_t member) const;

 private:
  std::vector<pid_t> pids_;
  std::vector<std::shared_ptr<const UniqueFd>> descriptors_;  // invalid where the system has none
};

}  // namespace outrigger::group
