#include "base/cross_memory.hpp"

#include <sys/uio.h>

#include <cerrno>

namespace outrigger {
namespace {

using Transfer = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);

int transfer_all(Transfer transfer, pid_t pid, std::uint64_t remote_address, std::byte* local, std::size_t bytes) {
  if (pid <= 0) return EPERM;
  while (bytes > 0) {
    const iovec here{local, bytes};
    const iovec there{reinterpret_cast<void*>(remote_address), bytes};  // NOLINT(performance-no-int-to-ptr)
    const ssize_t moved = transfer(pid, &here, 1, &there, 1, 0);
    if (moved <= 0) {
      if (moved < 0 && errno == EINTR) continue;
      return moved < 0 ? errno : EFAULT;
    }
    local += moved;
    remote_address += static_cast<std::uint64_t>(moved);
    bytes -= static_cast<std::size_t>(moved);
  }
  return 0;
}

}  // namespace

int read_cross_memory(pid_t pid, std::uint64_t remote_address, std::span<std::byte> to) {
  return transfer_all(::process_vm_readv, pid, remote_address, to.data(), to.size());
}

int write_cross_memory(pid_t pid, std::uint64_t remote_address, std::span<const std::byte> from) {
  return transfer_all(::process_vm_writev, pid, remote_address, const_cast<std::byte*>(from.data()), from.size());
}

}  // namespace outrigger
