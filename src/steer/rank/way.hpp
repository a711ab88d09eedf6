// Who does a collective of the program.
#pragma once

#include <cstdint>

namespace outrigger::steer {

enum class Way : std::uint8_t {
  native,     // the program's MPI
  ranks,      // the ranks of the node themselves (src/intranode)
  offloaded,  // service processes
};

}  // namespace outrigger::steer
