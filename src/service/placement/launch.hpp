// `outriggerd launch`: becomes an MPI's launcher that ends with the command that started it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.hpp"

namespace outrigger::service {

struct LaunchOptions {
  pid_t parent = 0;            // the command that starts this, from a thread that lives as long
  std::vector<int> unblocked;  // signals that the command has blocked for itself only
  // Signals that the command ignores. Libraries of this process, as UCX, may have handlers for them.
  std::vector<int> ignored;
  std::vector<std::string> command;
};

// Returns only on failure. The launcher gets SIGTERM when the command ends, also by kill -9: every launcher then ends
// its ranks on all nodes.
[[nodiscard]] Error launch(const LaunchOptions& options);

// Replaces this process by a program found on PATH. Returns only on failure.
[[nodiscard]] Error become(const std::vector<std::string>& command);

}  // namespace outrigger::service
