// Reduces a few bytes of ranks' memory that is on another machine. It reads as many operands at a time as there is room
// for, and reduces them in order into the first one's place. Operands that are in this process are used in place.
//
// Thread rule: one thread. `memory` may be destroyed meanwhile: reads in flight are notified, and no new ones begin.
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
  // `room`: at least twice `bytes`, and a multiple of it; must stay until `done`. `done` is called once, perhaps before
  // the return, with the result in the first `bytes` of `room`. `operands`: at least two, of `bytes` each, in whole
  // elements.
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
  // Reads as many of the next operands as there is room for.
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
  std::size_t next_ = 0;                           // index in operands_
  std::vector<const std::byte*> read_;             // operands to reduce next, in order
  std::vector<std::shared_ptr<const void>> hold_;  // of operands in this process
  std::size_t under_way_ = 0;
  MoveStatus status_ = MoveStatus::ok;
};

}  // namespace outrigger::fabric::ucx
