// The three ways in which a collective of the program runs.
#pragma once

#include <cstdint>

namespace outrigger::steer {

enum class Way : std::uint8_t {
  native,     // the program's MPI
  ranks,      // the ranks of the node themselves (src/intranode)
  offloaded,  // service processes
};

}  // namespace outrigger::steer
