// Lists of CPUs as users write them.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace outrigger {

// "0,2-4": cpu numbers in the order written.
[[nodiscard]] Result<std::vector<int>> parse_cpu_list(const std::string& text);

}  // namespace outrigger
