// The program of this process, as a user would name it.
#pragma once

#include <span>
#include <string>

namespace outrigger {

inline constexpr std::size_t kMostOfProgramName = 63;

// By the words of its command line: the executable's file name, or that of the script (module, class) that an
// interpreter runs: "solver" for ./bin/solver -n 4, "halo.py" for python3 -m mpi4py src/halo.py, "python3" if the
// program is not in a file. One line of at most kMostOfProgramName bytes, never empty.
[[nodiscard]] std::string program_name(std::span<const std::string> command);
// This process's.
[[nodiscard]] std::string program_name();

}  // namespace outrigger
