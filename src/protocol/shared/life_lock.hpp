// Lets a rank see that its service process lives if no keeper is left to report its death. The service process holds a
// lock on the rank's segment, which the kernel releases when the process ends. It is a POSIX lock, which belongs to a
// process, not to a descriptor: all descriptors of the segment share one open file.
#pragma once

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

namespace outrigger {

namespace detail {
[[nodiscard]] inline struct flock life_lock() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = 0;
  lock.l_len = 1;
  return lock;
}
// The lock's owner; type F_UNLCK if it is free.
[[nodiscard]] inline struct flock found_life_lock(int segment) {
  struct flock lock = life_lock();
  if (::fcntl(segment, F_GETLK, &lock) != 0) lock.l_type = F_UNLCK;
  return lock;
}
}  // namespace detail

// For the service process. It must keep the descriptor: closing any descriptor of the segment releases the lock.
[[nodiscard]] inline bool take_life_lock(int segment) {
  struct flock lock = detail::life_lock();
  return ::fcntl(segment, F_SETLK, &lock) == 0;
}

// For other processes.
[[nodiscard]] inline bool has_life_lock(int segment) {
  return detail::found_life_lock(segment).l_type != F_UNLCK;
}

// The process that holds it; 0: none, or one without a number in this namespace.
[[nodiscard]] inline pid_t life_lock_holder(int segment) {
  const struct flock lock = detail::found_life_lock(segment);
  return lock.l_type != F_UNLCK && lock.l_pid > 0 ? lock.l_pid : 0;
}

}  // namespace outrigger
