// Texts of the kernel's files, such as those in /proc.
#pragma once

#include <string>

namespace outrigger {

// Empty if the file cannot be opened. A file that fails while it is read, as that of a process that has just ended,
// gives what came before. Never throws for that: std::istreambuf_iterator does.
[[nodiscard]] std::string text_of_file(const std::string& path);

}  // namespace outrigger
