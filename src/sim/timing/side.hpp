// Interface of the two ways to do a job's collectives: by the ranks' own MPI, or by service processes.
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

  // A rank makes call number `call` of the workload now. `posted`: the call has returned. `request` is passed to
  // `ended`; it is unique among the rank's active operations.
  virtual void post(std::uint32_t rank, std::uint32_t call, std::uint32_t request, std::function<void()> posted) = 0;
  // The rank enters a call that waits, or leaves it.
  virtual void wait(std::uint32_t rank, bool inside) = 0;
  // It calls MPI_Test for all its active operations. `returned`: the last of these calls has returned.
  virtual void test(std::uint32_t rank, std::function<void()> returned) = 0;
  // Called when an operation of the rank has ended.
  std::function<void(std::uint32_t rank, std::uint32_t request)> ended;
};

}  // namespace outrigger::sim::timing
