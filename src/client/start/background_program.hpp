// Starts a program of outriggerd that goes to the background.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace outrigger::client {

struct BackgroundProgram {
  std::vector<std::string> words;     // the path of outriggerd, and arguments
  std::vector<int> descriptors;       // become 3 and the following ones
  std::chrono::milliseconds limit{};  // for it to go to the background
};

// Own process group, no other descriptors, none of the variables that are for ranks, signals as by default. Returns
// when the program has gone to the background: its first process has ended with 0. May throw std::bad_alloc.
[[nodiscard]] Status start_in_background(const BackgroundProgram& program);

}  // namespace outrigger::client
