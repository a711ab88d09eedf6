// Scheduling attributes of a service process.
#pragma once

namespace outrigger::service {

// Asks for the shortest time slices for the calling thread. It then runs soon after it is woken instead of after the
// slice of a computing process, which lasts milliseconds; its share of the core stays the same. Needs Linux 6.12 or
// later (no effect before) and no privilege.
void ask_for_short_slices();

}  // namespace outrigger::service
