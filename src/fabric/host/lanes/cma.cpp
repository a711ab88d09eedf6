#include "fabric/host/lanes/cma.hpp"

#include <cerrno>

#include "base/cross_memory.hpp"

namespace outrigger::fabric {
namespace {

MoveStatus status_of(int error) {
  if (error == 0) return MoveStatus::ok;
  return error == ESRCH ? MoveStatus::owner_lost : MoveStatus::memory_fault;
}

}  // namespace

MoveStatus read_from_process(pid_t pid, std::uint64_t remote_address, std::span<std::byte> to) {
  return status_of(read_cross_memory(pid, remote_address, to));
}

MoveStatus write_to_process(pid_t pid, std::uint64_t remote_address, std::span<const std::byte> from) {
  return status_of(write_cross_memory(pid, remote_address, from));
}

}  // namespace outrigger::fabric
