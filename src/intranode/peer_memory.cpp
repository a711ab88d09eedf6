#include "intranode/peer_memory.hpp"

#include "base/accessible_memory.hpp"
#include "base/cross_memory.hpp"

namespace outrigger::intranode {

bool CrossMemory::read(std::uint32_t member, std::uint64_t address, std::span<std::byte> to) {
  return may_make_rare_calls() && read_cross_memory(pids_[member], address, to) == 0;
}

bool CrossMemory::write(std::uint32_t member, std::uint64_t address, std::span<const std::byte> from) {
  const bool written = may_make_rare_calls() && write_cross_memory(pids_[member], address, from) == 0;
  writes_ = writes_ && written;
  return written;
}

}  // namespace outrigger::intranode
