// The memory of this node's ranks, for whoever moves bytes between it and another node.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "fabric/fabric.hpp"
#include "protocol/memory.hpp"

namespace outrigger::fabric {

class NodeMemory {
 public:
  NodeMemory() = default;
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  // A range of one rank's memory.
  struct View {
    MoveStatus status = MoveStatus::ok;  // otherwise nothing else holds
    std::byte* bytes = nullptr;          // nullptr: private memory, to be copied with read() and write()
    std::shared_ptr<const void> hold;    // keeps `bytes` valid, whatever becomes of the rank
  };
  [[nodiscard]] virtual View view(const MemoryRef& memory, std::uint64_t bytes) = 0;

  // Copies all of `to` or `from`; private memory by one cross-memory copy.
  [[nodiscard]] virtual MoveStatus read(const MemoryRef& from, std::span<std::byte> to) = 0;
  [[nodiscard]] virtual MoveStatus write(const MemoryRef& to, std::span<const std::byte> from) = 0;

 protected:
  ~NodeMemory() = default;
};

}  // namespace outrigger::fabric
