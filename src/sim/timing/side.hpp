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

  // A rank makes the workload's call of that number, now. `posted`: the call has returned; the rank is in no MPI call
  // then. `request` is given to `ended`; of a rank's that are under way no two have the same.
  virtual void post(std::uint32_t rank, std::uint32_t call, std::uint32_t request, std::function<void()> posted) = 0;
  // It enters a call that waits, and leaves it.
  virtual void wait(std::uint32_t rank, bool inside) = 0;
  // It calls MPI_Test for all that it has under way; `returned`: and is in no MPI call then.
  virtual void test(std::uint32_t rank, std::function<void()> returned) = 0;
  // Called with a rank whose operation has ended.
  std::function<void(std::uint32_t rank, std::uint32_t request)> ended;
};

}  // namespace outrigger::sim::timing
