// A host's keeper calls the `outriggerd dpu` that has its node's service processes, and has them started there.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "protocol/wire/control.hpp"
#include "protocol/wire/dpu_link.hpp"

namespace outrigger::service {

struct CalledDpu {
  DpuLink link;
  std::uint32_t services = 0;
  std::string name;  // as it calls itself
};

// HOST:PORT. Waits until the deadline. Error: it does not answer, greet or start them in time, or says why not.
[[nodiscard]] Result<CalledDpu> call_dpu(const std::string& address, const Secret& secret, const DpuJob& job,
                                         DpuLink::Clock::time_point deadline);

}  // namespace outrigger::service
