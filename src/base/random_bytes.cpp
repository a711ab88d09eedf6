#include "base/random_bytes.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.hpp"

namespace outrigger {

bool fill_random(std::span<std::byte> bytes) {
  UniqueFd device;
  while (!bytes.empty()) {
    const ssize_t got =
        device.valid() ? ::read(device.get(), bytes.data(), bytes.size()) : ::getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && !device.valid()) {
      device.reset(::open("/dev/urandom", O_RDONLY | O_CLOEXEC));
      if (device.valid()) continue;
    }
    if (got <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

}  // namespace outrigger
