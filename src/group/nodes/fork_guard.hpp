// Keeps children that a process forks from holding its connections: else these would not break when the process ends.
//
// Thread rule: any.
#pragma once

namespace outrigger::group {

// In a child, the descriptor becomes one of /dev/null. Throws std::exception if that cannot be had: then the caller
// must not keep the connection.
void guard_in_children(int socket);
// Before it is closed.
void unguard(int socket);

}  // namespace outrigger::group
