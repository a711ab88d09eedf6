// Common part of the allgathers that bring a block to each node once: the order of the blocks, the blocks of the own
// node, and the release of their sources. The algorithm gets the blocks of other nodes.
#pragma once

#include "engine/core/operation.hpp"

namespace outrigger::engine {

// `receive` gets a block from another node, then marks, releases and counts it. `eager`: the blocks that `receive` gets
// by pull().
Task allgather_by_nodes(Operation& operation, LocalRank& rank, Task (*receive)(Operation&, LocalRank&, GroupRank),
                        EagerSends eager);

}  // namespace outrigger::engine
