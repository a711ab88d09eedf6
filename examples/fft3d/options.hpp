// The command line.
#pragma once

#include <optional>
#include <string>

#include "pipeline.hpp"

namespace fft3d {

struct Options {
  Mode mode = Mode::kNonblocking;
  Memory memory = Memory::kMalloc;
  Extents grid = {96, 96, 96};
  int variables = 4;
  int iterations = 20;
  int pieces = 8;  // of each transform, in mode kTesting
  int rows = 0;    // with columns: 0: the MPI chooses
  int columns = 0;
  bool check = false;
  bool json = false;
  std::string trace;  // a file; empty: none
};

// Ends the job with a message if the arguments are wrong. nullopt: the help was printed.
[[nodiscard]] std::optional<Options> parse_options(int argc, char** argv, int rank);

[[nodiscard]] const char* name_of(Mode mode);
[[nodiscard]] const char* name_of(Memory memory);

}  // namespace fft3d
