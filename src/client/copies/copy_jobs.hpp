// Carries out the copies that a service process asks for on the rank's board (copy/board.hpp), by whichever
// thread calls it.
#pragma once

#include <array>
#include <cstdint>

#include "copy/board.hpp"

namespace outrigger::client {

// One thread at a time. Allocates nothing.
class CopyJobs {
 public:
  [[nodiscard]] CopyResult carry_out(const CopyJob& job);

 private:
  struct Known {
    std::int32_t pid = 0;
    std::uint64_t address = 0;
    std::uint64_t value = 0;
  };

  // Is the other process the one that is meant? 0 or an error number.
  [[nodiscard]] int find_process(const CopyJob& job);

  // Processes whose word has been found, so that it is not looked for before every copy.
  std::array<Known, 64> known_{};
};

}  // namespace outrigger::client
