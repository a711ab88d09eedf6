// Gives this process's core to the copiers that run there until they have done their jobs.
#pragma once

#include <deque>

#include "copy/core_share.hpp"
#include "fabric/host/lanes/lender.hpp"

namespace outrigger::fabric {

// Lasts at most a millisecond. `lenders`: at least one. `here`: this process has chunks to copy meanwhile.
void lend_core_to(const std::deque<Lender*>& lenders, copy::CoreShare share, bool here);

}  // namespace outrigger::fabric
