// What the kernel's scheduler is told of a service process.
#pragma once

namespace outrigger::service {

// Asks for the shortest time slices, for the calling thread. It then runs soon after it is woken, instead of after the
// slice of a rank or another process that computes, which lasts milliseconds; it gets no more of the core for that.
// Linux 6.12 and later; others take no notice. Needs no privilege.
void ask_for_short_slices();

}  // namespace outrigger::service
