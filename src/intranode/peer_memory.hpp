// Copies from a member's memory to another's, without a slot between them: one copy in place of two. The other member
// reads: a member whose call has failed may use its buffers for something else, so no other member may write there.
//
// Thread rule: the team's.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace outrigger::intranode {

class PeerMemory {
 public:
  virtual ~PeerMemory() = default;
  // All of `to` from there. False: not possible; a part may have been copied.
  [[nodiscard]] virtual bool read(std::uint32_t member, std::uint64_t address, std::span<std::byte> to) = 0;
};

// By process_vm_readv.
class CrossMemory final : public PeerMemory {
 public:
  // `pids` of the members.
  explicit CrossMemory(std::vector<pid_t> pids) : pids_(std::move(pids)) {}
  [[nodiscard]] bool read(std::uint32_t member, std::uint64_t address, std::span<std::byte> to) override;

 private:
  std::vector<pid_t> pids_;
};

}  // namespace outrigger::intranode
