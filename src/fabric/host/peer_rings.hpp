// Messages to other service processes of this node, by rings in shared memory. What finds no room waits here, in order:
// sending never blocks.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/shared_memory.hpp"
#include "base/unique_fd.hpp"
#include "protocol/byte_ring.hpp"
#include "protocol/ids.hpp"

namespace outrigger::fabric {

class PeerRings {
 public:
  // The ring this process writes to reach `peer`, and the eventfd that wakes it.
  void add(SpId peer, Mapping ring, UniqueFd doorbell);
  void send(SpId to, std::span<const std::byte> message);
  // Sends what has waited for room. True: anything.
  bool send_waiting();
  [[nodiscard]] std::size_t waiting() const { return waiting_; }

 private:
  struct Peer {
    Mapping mapping;
    ByteRingWriter ring;
    UniqueFd doorbell;
    std::deque<std::vector<std::byte>> waiting;
  };

  [[nodiscard]] bool send_waiting_to(Peer& peer);
  static void wake(Peer& peer);

  std::unordered_map<SpId, Peer> peers_;
  std::size_t waiting_ = 0;
};

}  // namespace outrigger::fabric
