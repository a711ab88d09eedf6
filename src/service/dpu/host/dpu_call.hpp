// Connects a host's keeper to the `outriggerd dpu` of its node and has the service processes started there.
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
  std::string name;  // the DPU's own host name
};

// `address`: HOST:PORT. Waits until the deadline. Error: no answer, handshake or start in time, or the DPU's reason.
[[nodiscard]] Result<CalledDpu> call_dpu(const std::string& address, const Secret& secret, const DpuJob& job,
                                         DpuLink::Clock::time_point deadline);

}  // namespace outrigger::service
