#include "client/operations/doorbell.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace outrigger::client {

void Doorbell::ring() const {
  const std::uint64_t one = 1;
  long written = 0;
  do {
    written = ::syscall(SYS_write, event_.get(), &one, sizeof(one));  // write() is a cancellation point
  } while (written < 0 && errno == EINTR);
}

}  // namespace outrigger::client
