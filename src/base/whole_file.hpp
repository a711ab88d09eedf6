// Files that are written whole or not at all.
#pragma once

#include <string>

#include "base/result.hpp"

namespace outrigger {

// Puts a file in the place of what is there, whole or not at all, however many write at a time. A path that is no
// regular file (a pipe, a terminal) is written to, if `last`: only once. Error: what went wrong.
[[nodiscard]] Status write_file(const std::string& path, const std::string& text, bool last);

}  // namespace outrigger
