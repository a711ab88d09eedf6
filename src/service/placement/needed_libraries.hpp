// The shared libraries that a program needs, from its ELF file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace outrigger::service {

// The names (DT_NEEDED) in the file's order. Empty: none, or not an ELF file of this machine's word size and byte
// order.
[[nodiscard]] std::vector<std::string> needed_libraries(const std::string& path);

// The file that execvp() would run, with this PATH or this process's own; empty if there is none.
[[nodiscard]] std::string program_on_path(const std::string& name, std::string_view path);
[[nodiscard]] std::string program_on_path(const std::string& name);

// True for runtimes of the address, thread, and leak sanitizers: they end a program that loads another library before
// them.
[[nodiscard]] bool must_be_first(std::string_view library);

// LD_PRELOAD for a program that needs `needed`: `ours` (paths separated by colons) before `present`, and before both
// what must be first. Such libraries of `present` are also kept behind, so that removing ours and everything before it
// restores `present`.
[[nodiscard]] std::string preload_list(const std::string& ours, const std::string& present,
                                       const std::vector<std::string>& needed);

}  // namespace outrigger::service
