#include "client/operations/doorbell.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/no_cancellation.hpp"

namespace outrigger::client {

void Doorbell::ring() const {
  const NoCancellation whole;  // the caller may hold a lock
  const std::uint64_t one = 1;
  ssize_t written = 0;
  do {
    written = ::write(event_.get(), &one, sizeof(one));
  } while (written < 0 && errno == EINTR);
}

}  // namespace outrigger::client
