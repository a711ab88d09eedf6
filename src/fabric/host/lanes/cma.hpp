// Copies between this process and another one's private memory (process_vm_readv, process_vm_writev).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "fabric/block_mover.hpp"

namespace outrigger::fabric {

// Copies all of `to` from `remote_address` in process `pid`. Partial transfers are continued. Returns memory_fault if a
// part of the range is missing, owner_lost if the process is. On failure `to` may be partly overwritten.
[[nodiscard]] MoveStatus read_from_process(pid_t pid, std::uint64_t remote_address, std::span<std::byte> to);
[[nodiscard]] MoveStatus write_to_process(pid_t pid, std::uint64_t remote_address, std::span<const std::byte> from);

}  // namespace outrigger::fabric
