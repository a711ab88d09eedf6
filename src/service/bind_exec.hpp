// `outriggerd exec`: bind to the cores of this local rank, then become the program.
#pragma once

#include <string>
#include <vector>

#include "protocol/result.hpp"

namespace outrigger::service {

struct BindExecOptions {
  std::string cpus;     // "0;1;2-3": one list per local rank, used again from the start when there are more ranks
  std::string preload;  // put in front of LD_PRELOAD; empty: nothing
  std::vector<std::string> command;
};

// Returns only on failure.
[[nodiscard]] Error bind_and_exec(const BindExecOptions& options);

}  // namespace outrigger::service
