// Copies between a member's memory and another's, without a slot between them: one copy in place of two.
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
  // All of `to` from there, or all of `from` to there. False: not possible; a part may have been copied.
  [[nodiscard]] virtual bool read(std::uint32_t member, std::uint64_t address, std::span<std::byte> to) = 0;
  [[nodiscard]] virtual bool write(std::uint32_t member, std::uint64_t address, std::span<const std::byte> from) = 0;
};

// By process_vm_readv and process_vm_writev.
class CrossMemory final : public PeerMemory {
 public:
  // `pids` of the members.
  explicit CrossMemory(std::vector<pid_t> pids) : pids_(std::move(pids)) {}
  [[nodiscard]] bool read(std::uint32_t member, std::uint64_t address, std::span<std::byte> to) override;
  [[nodiscard]] bool write(std::uint32_t member, std::uint64_t address, std::span<const std::byte> from) override;

 private:
  std::vector<pid_t> pids_;
};

}  // namespace outrigger::intranode
