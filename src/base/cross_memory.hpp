// Copies between this process and another one's private memory (process_vm_readv, process_vm_writev).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace outrigger {

// Copies all of `to` from `remote_address` in process `pid`, or all of `from` to there. Partial transfers are
// continued. Returns 0 or an error number: EFAULT: a part of the range is missing; ESRCH: no such process; EPERM,
// ENOSYS and others: not allowed. On failure a part may have been copied.
[[nodiscard]] int read_cross_memory(pid_t pid, std::uint64_t remote_address, std::span<std::byte> to);
[[nodiscard]] int write_cross_memory(pid_t pid, std::uint64_t remote_address, std::span<const std::byte> from);

}  // namespace outrigger
