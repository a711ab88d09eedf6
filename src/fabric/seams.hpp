// The engine's interface to the world. Implementations: host/ (same-node memory), ucx/ (the wire), dpu/ (ranks reached
// from a DPU) and sim/ (virtual time).
#pragma once

#include "fabric/block_mover.hpp"
#include "fabric/peer_messenger.hpp"
#include "fabric/rank_view.hpp"

namespace outrigger::fabric {

struct Seams {
  BlockMover& mover;
  PeerMessenger& messenger;
  RankView& ranks;
};

}  // namespace outrigger::fabric
