// What goes wrong in a service process because a test wants it to: OUTRIGGER_FAULTS, an internal variable. Without it
// nothing here does anything.
//
//   hang   at SIGUSR1 it loops for ever, at SIGUSR2 it blocks for ever, wherever it is
//
// Thread rule: one thread.
#pragma once

namespace outrigger::service {

// Before its loop begins.
void arrange_faults();

}  // namespace outrigger::service
