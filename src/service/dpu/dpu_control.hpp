// Carries control messages between a host's keeper and service processes on its DPU. The bytes behind a descriptor
// travel with the message and get a new descriptor on the other side.
#pragma once

#include <cstdint>
#include <span>

#include "protocol/wire/control.hpp"
#include "protocol/wire/dpu_link.hpp"

namespace outrigger::service {

// `fds`: at most one, of sealed memory; other descriptors are not sent.
void send_control(DpuLink& link, std::uint32_t sp, std::span<const std::byte> packet, std::span<const int> fds);

[[nodiscard]] Result<ControlMessage> control_of(const DpuFrame& frame);

}  // namespace outrigger::service
