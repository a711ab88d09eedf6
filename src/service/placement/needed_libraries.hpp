// Which shared libraries a program asks for, as its ELF file has them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace outrigger::service {

// The names (DT_NEEDED) in a file's order. Empty: none, or no ELF file of this machine's word size and byte order.
[[nodiscard]] std::vector<std::string> needed_libraries(const std::string& path);

// The file that execvp() would run, with this PATH or this process's own; empty: none.
[[nodiscard]] std::string program_on_path(const std::string& name, std::string_view path);
[[nodiscard]] std::string program_on_path(const std::string& name);

// A runtime that must come before all other libraries of a process, by its file name: those of the address, thread, and
// leak sanitizers end a program that has another one in front.
[[nodiscard]] bool must_be_first(std::string_view library);

// LD_PRELOAD for a program that needs `needed`: `ours` (paths with colons between them) before `present`, and before
// both what must be first. What `present` has of that is also kept behind: whoever takes ours out again, with what is
// in front of it, leaves `present` as it was.
[[nodiscard]] std::string preload_list(const std::string& ours, const std::string& present,
                                       const std::vector<std::string>& needed);

}  // namespace outrigger::service
