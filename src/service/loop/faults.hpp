// What goes wrong in a service process because a test wants it to: OUTRIGGER_FAULTS, an internal variable. Without it
// nothing here does anything.
//
//   hang                     at SIGUSR1 it loops for ever, at SIGUSR2 it blocks for ever, wherever it is
//   crash:COLLECTIVE:TIMES   it dies by SIGSEGV when it takes an operation of that kind, and so do those that take its
//                            place, until there have been so many deaths
//
// Thread rule: one thread.
#pragma once

#include <cstdint>

#include "protocol/collective.hpp"

namespace outrigger::service {

// Before its loop begins.
void arrange_faults();
// It is the how-manieth in its place, from 1.
void arrange_faults_of(std::uint32_t epoch);
// It takes such an operation.
void fail_at(Collective collective);

}  // namespace outrigger::service
