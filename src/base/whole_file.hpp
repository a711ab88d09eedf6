// Atomic replacement of files.
#pragma once

#include <string>

#include "base/result.hpp"

namespace outrigger {

// Replaces a file atomically, even with concurrent writers. If `path` is not a regular file (a pipe, a terminal),
// writes to it only if `last`. Error: the reason of the failure.
[[nodiscard]] Status write_file(const std::string& path, const std::string& text, bool last);

}  // namespace outrigger
