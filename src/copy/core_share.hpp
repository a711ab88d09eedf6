// Sharing of cores, which decides how to copy and how to wait. The keeper finds it out when it places its service
// processes, and publishes the result to them and their ranks. Ranks refine it by their own knowledge.
#pragma once

#include <cstdint>

namespace outrigger::copy {

// The core of a service process.
enum class CoreShare : std::uint32_t {
  none = 0,    // not bound, and no more cores than ranks: it always takes time from ranks
  idle = 1,    // not bound, and more cores than ranks: the kernel finds an idle one
  shared = 2,  // bound to a core on which ranks or other service processes run as well
  own = 3,     // bound to a core on which no rank of the node may run
};

// The cores of a rank, which decide how it waits.
enum class RankCores : std::uint8_t {
  own,                   // not needed by others
  shared_with_services,  // a service process may need them: the rank yields while it spins
  shared_with_ranks,     // more ranks than cores: the rank gives up its core at once
};

}  // namespace outrigger::copy
