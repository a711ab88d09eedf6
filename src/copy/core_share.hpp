// Whose the cores are, for all who decide by that how to copy and how to wait. Worked out once: the keeper does it when
// it places its service processes, and tells each of them and the ranks that it serves. Ranks add what only they know.
#pragma once

#include <cstdint>

namespace outrigger::copy {

// The core of a service process.
enum class CoreShare : std::uint32_t {
  none = 0,    // not bound, and there are no more cores than ranks: whatever it does it takes from them
  idle = 1,    // not bound; there are more cores than ranks, and the kernel finds one that is idle
  shared = 2,  // bound to one that ranks or other service processes run on as well
  own = 3,     // bound to one that no rank of the node may run on
};

// The cores of a rank, by how it has to wait there.
enum class RankCores : std::uint8_t {
  own,                   // nobody else needs them
  shared_with_services,  // a service process may want them: it yields where it would spin
  shared_with_ranks,     // there are more ranks than cores: it gives its core away at once
};

}  // namespace outrigger::copy
