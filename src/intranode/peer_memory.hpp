// Copies from a member's memory to another's, without a slot between them: one copy in place of two. Either of them may
// copy. A member whose call has failed may use its buffers for something else, so others write there only what they
// have taken of an open SharedCopy.
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
  // All of `from` to there, likewise.
  [[nodiscard]] virtual bool write(std::uint32_t member, std::uint64_t address, std::span<const std::byte> from) = 0;
  // Is it worth a try?
  [[nodiscard]] virtual bool may_write() const { return true; }
};

// Which blocks of a team are copied directly: all members know alike.
struct DirectBlocks {
  PeerMemory* memory = nullptr;  // if all members can
  std::uint64_t from_bytes = 0;
  [[nodiscard]] bool have(std::uint64_t bytes) const { return memory != nullptr && bytes >= from_bytes; }
};

// By process_vm_readv and process_vm_writev.
class CrossMemory final : public PeerMemory {
 public:
  // `pids` of the members.
  explicit CrossMemory(std::vector<pid_t> pids) : pids_(std::move(pids)) {}
  [[nodiscard]] bool read(std::uint32_t member, std::uint64_t address, std::span<std::byte> to) override;
  [[nodiscard]] bool write(std::uint32_t member, std::uint64_t address, std::span<const std::byte> from) override;
  // Until it has failed once.
  [[nodiscard]] bool may_write() const override { return writes_; }

 private:
  bool writes_ = true;
  std::vector<pid_t> pids_;
};

}  // namespace outrigger::intranode
