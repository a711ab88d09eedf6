// Whether the peers that there is business with still live: asked for signs of life where none come by themselves.
//
// Thread rule: one thread.
#pragma once

#include "fabric/ucx/channels.hpp"

namespace outrigger::fabric::ucx {

class Liveness {
 public:
  Liveness(const WireOptions& options, Peers& peers, Channels& channels)
      : options_(options), peers_(peers), channels_(channels) {}

  // As Wire::tick().
  void tick(bool interested);

 private:
  // False: it is lost.
  [[nodiscard]] bool look_at(Peer& peer, bool interested);

  const WireOptions& options_;
  Peers& peers_;
  Channels& channels_;
};

}  // namespace outrigger::fabric::ucx
