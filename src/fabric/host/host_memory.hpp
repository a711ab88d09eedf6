// The memory of this node's ranks: mapped, or copied by cross-memory attach.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "fabric/host/node_ranks.hpp"
#include "fabric/node_memory.hpp"

namespace outrigger::fabric {

class HostMemory : public NodeMemory {
 public:
  explicit HostMemory(NodeRanks& ranks) : ranks_(ranks) {}

  [[nodiscard]] View view(const MemoryRef& memory, std::uint64_t bytes) final;
  [[nodiscard]] MoveStatus read(const MemoryRef& from, std::span<std::byte> to) final;
  [[nodiscard]] MoveStatus write(const MemoryRef& to, std::span<const std::byte> from) final;

 protected:
  ~HostMemory() = default;

 private:
  NodeRanks& ranks_;
};

}  // namespace outrigger::fabric
