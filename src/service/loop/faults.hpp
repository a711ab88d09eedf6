// Fault injection for tests: OUTRIGGER_FAULTS, an internal variable. Without it nothing here has an effect.
//
//   hang                     at SIGUSR1 it loops for ever, at SIGUSR2 it blocks for ever, wherever it is
//   crash:COLLECTIVE:TIMES   it dies by SIGSEGV when it takes an operation of that kind, and so do its replacements,
//                            until there have been so many deaths
//
// Thread rule: one thread.
#pragma once

#include <cstdint>

#include "protocol/collective.hpp"

namespace outrigger::service {

// Before the loop begins.
void arrange_faults();
// `epoch`: the number of starts in this place, from 1.
void arrange_faults_of(std::uint32_t epoch);
// An operation of this kind is being taken.
void fail_at(Collective collective);

}  // namespace outrigger::service
