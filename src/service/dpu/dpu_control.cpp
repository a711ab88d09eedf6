#include "service/dpu/dpu_control.hpp"

#include <sys/stat.h>

#include <utility>
#include <vector>

#include "base/shared_memory.hpp"

namespace outrigger::service {

void send_control(DpuLink& link, std::uint32_t sp, std::span<const std::byte> packet, std::span<const int> fds) {
  std::vector<std::byte> attached;
  struct stat status {};
  if (!fds.empty() && ::fstat(fds[0], &status) == 0) {
    Result<std::vector<std::byte>> bytes =
        read_shared_bytes(fds[0], static_cast<std::uint64_t>(status.st_size), kMaxDpuAttachedBytes);
    if (bytes) attached = std::move(bytes).value();
  }
  link.send(DpuFrameKind::control, sp, packet, attached);
}

Result<ControlMessage> control_of(const DpuFrame& frame) {
  std::vector<UniqueFd> fds;
  if (!frame.attached.empty()) {
    Result<UniqueFd> shared = share_bytes("outrigger-attached", frame.attached);
    if (!shared) return Error{shared.error()};
    fds.push_back(std::move(shared).value());
  }
  return decode_control(frame.packet, std::move(fds));
}

}  // namespace outrigger::service
