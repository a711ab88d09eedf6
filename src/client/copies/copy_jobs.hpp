// Carries out copies of the job queue (copy/copy_queue.hpp) in the calling thread.
#pragma once

#include <array>
#include <cstdint>

#include "copy/copy_queue.hpp"

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

  // Checks that the other process is the intended one. 0 or an error number.
  [[nodiscard]] int find_process(const CopyJob& job);

  // Processes whose word has been checked, so that not every copy checks it.
  std::array<Known, 64> known_{};
};

}  // namespace outrigger::client
