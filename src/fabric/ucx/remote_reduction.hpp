// Reduces a few bytes of ranks' memory that is on another machine: as many operands as there is room for are read at
// the same time, reduced in their order into the first one's place, and the next ones are read. Operands that are here,
// as what other nodes have sent, are taken where they are.
//
// Thread rule: one thread. `memory` may go away under what has begun: what reads is told so, and nothing is begun then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "fabric/node_memory.hpp"
#include "protocol/memory.hpp"
#include "protocol/reduction.hpp"

namespace outrigger::fabric::ucx {

class RemoteReduction : public std::enable_shared_from_this<RemoteReduction> {
 public:
  // `room`: a multiple of `bytes`, twice that at least; the result is in its first `bytes` when `done` is called, once,
  // perhaps before the return. It stays until then. `operands`: two at least, of `bytes` each, whole elements.
  static void start(NodeMemory& memory, const Reduction& reduction, std::vector<MemoryRef> operands,
                    std::span<std::byte> room, std::uint64_t bytes, NodeMemory::Accessed done);

 private:
  RemoteReduction(NodeMemory& memory, const Reduction& reduction, std::vector<MemoryRef> operands,
                  std::span<std::byte> room, std::uint64_t bytes, NodeMemory::Accessed done)
      : memory_(memory),
        reduction_(reduction),
        operands_(std::move(operands)),
        room_(room),
        bytes_(bytes),
        done_(std::move(done)) {}
  // Of those that come next, what there is room for.
  void read_some();
  void read(const MemoryRef& operand, std::span<std::byte> place);
  void read_ended(MoveStatus status);
  void reduce_read();

  NodeMemory& memory_;
  const Reduction reduction_;
  const std::vector<MemoryRef> operands_;
  const std::span<std::byte> room_;
  const std::uint64_t bytes_;
  NodeMemory::Accessed done_;
  std::size_t next_ = 0;                           // of operands_
  std::vector<const std::byte*> read_;             // what is to be reduced next, in order
  std::vector<std::shared_ptr<const void>> hold_;  // of those that are here
  std::size_t under_way_ = 0;
  MoveStatus status_ = MoveStatus::ok;
};

}  // namespace outrigger::fabric::ucx
