// Where a report goes.
#pragma once

#include <string>

#include "base/result.hpp"

namespace outrigger::report {

// Puts a file in the place of what is there, whole or not at all, however many write at a time. What is no regular file
// (a pipe, a terminal) is written to, if `last`: only once. Error: what went wrong.
[[nodiscard]] Status write_file(const std::string& path, const std::string& text, bool last);

}  // namespace outrigger::report
