// Control messages on their way between a host's keeper and service processes on its DPU: the bytes behind a
// descriptor travel along, and get a descriptor again on the other side.
#pragma once

#include <cstdint>
#include <span>

#include "protocol/wire/control.hpp"
#include "protocol/wire/dpu_link.hpp"

namespace outrigger::service {

// `fds`: at most one, of sealed memory; of others nothing travels.
void send_control(DpuLink& link, std::uint32_t sp, std::span<const std::byte> packet, std::span<const int> fds);

// What a control frame holds.
[[nodiscard]] Result<ControlMessage> control_of(const DpuFrame& frame);

}  // namespace outrigger::service
