// `outriggerd launch`: become an MPI's launcher that ends with the command that started it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.hpp"

namespace outrigger::service {

struct LaunchOptions {
  pid_t parent = 0;            // the command that starts this; its thread that does must live as long as the command
  std::vector<int> unblocked;  // signals that it has blocked for itself alone
  std::vector<int> ignored;    // signals that it ignores; libraries of this process may have handlers for them (UCX)
  std::vector<std::string> command;
};

// Returns only on failure. The launcher gets SIGTERM when the command ends, also by kill -9: every launcher then ends
// its ranks, on all nodes.
[[nodiscard]] Error launch(const LaunchOptions& options);

// Replaces this process by a program that is looked for on PATH. Returns only on failure.
[[nodiscard]] Error become(const std::vector<std::string>& command);

}  // namespace outrigger::service
