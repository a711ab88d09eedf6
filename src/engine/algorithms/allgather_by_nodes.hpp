// What the allgathers have in common that bring a block to a node once: in which order a rank takes the blocks, how it
// gets those of its own node, and when it lets these sources go. How a block of another node comes is the algorithm's.
#pragma once

#include "engine/core/operation.hpp"

namespace outrigger::engine {

// `receive`: gets the block of a rank of another node, marks, releases and counts it. `eager`: whose blocks it gets by
// pull().
Task allgather_by_nodes(Operation& operation, LocalRank& rank, Task (*receive)(Operation&, LocalRank&, GroupRank),
                        EagerSends eager);

}  // namespace outrigger::engine
