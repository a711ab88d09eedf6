// Carries messages to other service processes: one of the three seams under the engine (fabric/seams.hpp).
//
// Thread rule: one thread. Nothing here blocks.
#pragma once

#include <cstddef>
#include <span>

#include "protocol/ids.hpp"

namespace outrigger::fabric {

class PeerMessenger {
 public:
  // Sends a message to another service process (never to itself). Ordered per pair, and not lost while both live. The
  // bytes are copied before the return.
  virtual void send(SpId to, std::span<const std::byte> message) = 0;

 protected:
  ~PeerMessenger() = default;
};

}  // namespace outrigger::fabric
