// This process's core, given to the copiers that run there until they have done what they were given.
#pragma once

#include <deque>

#include "copy/core_share.hpp"
#include "fabric/host/lanes/lender.hpp"

namespace outrigger::fabric {

// For a millisecond at most. `lenders`: one at least. `here`: there is something to be copied by this process
// meanwhile.
void lend_core_to(const std::deque<Lender*>& lenders, copy::CoreShare share, bool here);

}  // namespace outrigger::fabric
