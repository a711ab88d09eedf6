#include "fabric/host/lanes/relay.hpp"

#include <algorithm>
#include <span>

#include "fabric/host/lanes/cma.hpp"

namespace outrigger::fabric {
namespace {

constexpr std::uint64_t kStagingBytes = 256U << 10;  // half of a usual second-level cache

}  // namespace

MoveStatus Relay::copy(pid_t from, std::uint64_t from_address, pid_t to, std::uint64_t to_address,
                       std::uint64_t bytes) {
  if (staging_.empty()) staging_.resize(kStagingBytes);
  while (bytes > 0) {
    const std::span<std::byte> staged(staging_.data(), std::min(bytes, kStagingBytes));
    const MoveStatus read = read_from_process(from, from_address, staged);
    if (read != MoveStatus::ok) return read;
    const MoveStatus written = write_to_process(to, to_address, staged);
    if (written != MoveStatus::ok) return written;
    from_address += staged.size();
    to_address += staged.size();
    bytes -= staged.size();
  }
  return MoveStatus::ok;
}

}  // namespace outrigger::fabric
