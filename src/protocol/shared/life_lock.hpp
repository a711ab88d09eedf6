// How a rank sees that its service process lives, where no keeper is left to say that it has died: the service process
// has a lock on the rank's segment that the kernel takes away with the process, however it ends. Of locks of the POSIX
// kind, which belong to a process and not to a descriptor: all have the segment by descriptors of one open file.
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
// Whose it is; of the kind F_UNLCK: nobody's.
[[nodiscard]] inline struct flock found_life_lock(int segment) {
  struct flock lock = life_lock();
  if (::fcntl(segment, F_GETLK, &lock) != 0) lock.l_type = F_UNLCK;
  return lock;
}
}  // namespace detail

// The service process, which keeps the descriptor: the first one of the segment that it closes ends the lock.
[[nodiscard]] inline bool take_life_lock(int segment) {
  struct flock lock = detail::life_lock();
  return ::fcntl(segment, F_SETLK, &lock) == 0;
}

// Anybody else.
[[nodiscard]] inline bool has_life_lock(int segment) {
  return detail::found_life_lock(segment).l_type != F_UNLCK;
}

// The process that has it; 0: nobody, or one that has no number here.
[[nodiscard]] inline pid_t life_lock_holder(int segment) {
  const struct flock lock = detail::found_life_lock(segment);
  return lock.l_type != F_UNLCK && lock.l_pid > 0 ? lock.l_pid : 0;
}

}  // namespace outrigger
