#include "mpi/collectives/bad_buffers.hpp"

#include <array>
#include <cstdio>
#include <optional>

#include "base/accessible_memory.hpp"
#include "mpi/collectives/offloaded_collective.hpp"

namespace outrigger::mpi {
namespace {

struct Fault {
  std::uint32_t peer = 0;
  std::uintptr_t address = 0;
  std::uint64_t offset = 0;  // in the peer's block
};

// Memory that the library has staged in is well.
std::optional<Fault> fault_in(const Blocks& blocks, Access access) {
  if (blocks.staged()) return std::nullopt;
  const std::byte* looked_at = nullptr;
  for (std::uint32_t peer = 0; peer < blocks.peers(); ++peer) {
    const std::byte* block = blocks.handed(peer);
    const std::uint64_t bytes = blocks.bytes_of(peer);
    if (bytes == 0 || block == looked_at) continue;
    looked_at = block;
    if (const auto address = first_inaccessible(block, bytes, access)) {
      return Fault{rank_of(blocks, peer), *address, *address - reinterpret_cast<std::uintptr_t>(block)};
    }
  }
  return std::nullopt;
}

// It has become so since the operation was posted, or it would have been staged.
bool is_beyond_others(const Blocks& blocks, Access access) {
  if (blocks.staged()) return false;
  for (std::uint32_t peer = 0; peer < blocks.peers(); ++peer) {
    const auto low = reinterpret_cast<std::uintptr_t>(blocks.handed(peer));
    const Reachable found = reachable(low, low + blocks.bytes_of(peer), access, [](const MappedRange&) {});
    if (found == Reachable::by_this_process) return true;
  }
  return false;
}

std::string text_of(const Fault& fault, const char* buffer, const char* use, const char* direction) {
  std::array<char, 200> text{};
  std::snprintf(
      text.data(), text.size(),
      "this rank's %s buffer cannot be %s at address %#llx, byte %llu of the block %s rank %u of the communicator",
      buffer, use, static_cast<unsigned long long>(fault.address), static_cast<unsigned long long>(fault.offset),
      direction, fault.peer);
  return text.data();
}

}  // namespace

std::string bad_buffer_of(const Operation& operation) {
  if (const auto fault = fault_in(operation.send, Access::read)) return text_of(*fault, "send", "read", "for");
  if (const auto fault = fault_in(operation.receive, Access::write)) {
    return text_of(*fault, "receive", "written", "from");
  }
  if (is_beyond_others(operation.send, Access::read) || is_beyond_others(operation.receive, Access::write)) {
    return "no other process can read or write this rank's buffers, which were ordinary memory when the operation was "
           "posted; set OUTRIGGER_REACH=mapped";
  }
  return "this rank's buffers are well: the rank whose are not says so";
}

}  // namespace outrigger::mpi
