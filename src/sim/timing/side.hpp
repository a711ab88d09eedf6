// Who does a job's collectives: the ranks' own MPI, or service processes. What a measured program needs of either.
#pragma once

#include <cstdint>
#include <functional>

namespace outrigger::sim::timing {

class Side {
 public:
  Side() = default;
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
  virtual ~Side() = default;

  // A rank posts its next operation, now. `posted`: the call has returned; the rank is in no MPI call then.
  virtual void post(std::uint32_t rank, std::function<void()> posted) = 0;
  // It enters a call that waits, and leaves it.
  virtual void wait(std::uint32_t rank, bool inside) = 0;
  // Called with a rank whose operation has ended.
  std::function<void(std::uint32_t rank)> ended;
};

}  // namespace outrigger::sim::timing
