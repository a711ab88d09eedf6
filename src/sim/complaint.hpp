// Error messages of outrigger-sim's subcommands.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>

namespace outrigger::sim {

// Returns the exit status.
[[nodiscard]] inline int fail(const std::string& text) {
  fmt::print(stderr, "outrigger-sim: {}\n", text);
  return 1;
}

}  // namespace outrigger::sim
