// Copies between two processes' private memory through a buffer of this one: two copies.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fabric/block_mover.hpp"

namespace outrigger::fabric {

// Thread rule: one thread.
class Relay {
 public:
  [[nodiscard]] MoveStatus copy(pid_t from, std::uint64_t from_address, pid_t to, std::uint64_t to_address,
                                std::uint64_t bytes);

 private:
  std::vector<std::byte> staging_;
};

}  // namespace outrigger::fabric
