// The command line.
#pragma once

#include <optional>

#include "tile.hpp"

namespace halo {

enum class Mode { kBlocking, kNonblocking, kTesting, kCompute };

struct Options {
  Mode mode = Mode::kNonblocking;
  int columns = 2048;  // of the whole grid
  int rows = 2048;
  int fields = 4;
  int steps = 50;
  int pieces = 16;
  Memory memory = Memory::kMalloc;
  int process_rows = 0;  // 0: MPI chooses
  int process_columns = 0;
  bool check = false;
  bool json = false;
};

[[nodiscard]] const char* name_of(Mode mode);
[[nodiscard]] const char* name_of(Memory memory);

// Ends the job with a message if the arguments are invalid. nullopt: rank 0 has printed the help.
[[nodiscard]] std::optional<Options> parse_options(int argc, char** argv, int rank);

}  // namespace halo
