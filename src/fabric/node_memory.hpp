// The memory of this node's ranks, for code that moves bytes between it and another node.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>

#include "fabric/block_mover.hpp"
#include "protocol/memory.hpp"

namespace outrigger::fabric {

// The service process's own memory, for operands that it has fetched. No other code may name it.
inline constexpr WorldRank kOwnMemory{~std::uint32_t{0}};

class NodeMemory {
 public:
  NodeMemory() = default;
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  // A range of one rank's memory.
  struct View {
    MoveStatus status = MoveStatus::ok;  // the other fields are valid only with `ok`
    std::byte* bytes = nullptr;          // nullptr: private memory, to be copied with read() and write()
    std::shared_ptr<const void> hold;    // keeps `bytes` valid even if the rank ends
  };
  [[nodiscard]] virtual View view(const MemoryRef& memory, std::uint64_t bytes) = 0;

  // Copies all of `to` or `from`; private memory by one cross-memory copy.
  [[nodiscard]] virtual MoveStatus read(const MemoryRef& from, std::span<std::byte> to) = 0;
  [[nodiscard]] virtual MoveStatus write(const MemoryRef& to, std::span<const std::byte> from) = 0;

  // The ranks are on another machine: view() has no bytes, and only the calls below reach their memory.
  [[nodiscard]] virtual bool is_remote() const { return false; }
  // The same for one range.
  [[nodiscard]] virtual bool is_remote(const MemoryRef& /*memory*/) const { return is_remote(); }
  // Calls `done` once, after the return; the local bytes must stay until then. After a write they are in place.
  using Accessed = std::function<void(MoveStatus)>;
  virtual void start_read(const MemoryRef& from, std::span<std::byte> to, Accessed done);
  virtual void start_write(const MemoryRef& to, std::span<const std::byte> from, Accessed done);
  // For callers that wait for these. False if nothing was done.
  virtual bool progress_memory() { return false; }

 protected:
  ~NodeMemory() = default;
};

inline void NodeMemory::start_read(const MemoryRef& /*from*/, std::span<std::byte> /*to*/, Accessed /*done*/) {
  std::abort();  // is_remote(): a bug
}
inline void NodeMemory::start_write(const MemoryRef& /*to*/, std::span<const std::byte> /*from*/, Accessed /*done*/) {
  std::abort();
}

}  // namespace outrigger::fabric
