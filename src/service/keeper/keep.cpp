#include "service/keeper/keep.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/time_slice.hpp"
#include "service/notices/log.hpp"

namespace outrigger::service {
namespace {

// Reads the node's secret, then the DPU's.
bool read_secrets(KeeperConfig& config) {
  std::array<Secret, 2> secrets{};
  auto* place = reinterpret_cast<std::uint8_t*>(secrets.data());
  std::size_t have = 0;
  while (have < sizeof(secrets)) {
    const ssize_t bytes = ::read(kKeeperSecretFd, place + have, sizeof(secrets) - have);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return false;
    have += static_cast<std::size_t>(bytes);
  }
  config.secret = secrets[0];
  config.dpu_secret = secrets[1];
  return true;
}

bool is_listener(int fd) {
  int type = 0;
  int listening = 0;
  socklen_t bytes = sizeof(int);
  if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) != 0 || type != SOCK_SEQPACKET) return false;
  bytes = sizeof(int);
  return ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &bytes) == 0 && listening == 1;
}

}  // namespace

int keep(KeeperConfig config) {
  UniqueFd listener(kKeeperListenerFd);
  if (!is_listener(listener.get())) {
    std::fprintf(stderr, "outriggerd keep: descriptor %d is not a listening socket; the ranks start the keeper\n",
                 kKeeperListenerFd);
    return 2;
  }
  if (!read_secrets(config)) {
    std::fprintf(stderr, "outriggerd keep: no secret on descriptor %d; the ranks start the keeper\n", kKeeperSecretFd);
    return 2;
  }
  ::close(kKeeperSecretFd);
  const char* const trace = std::getenv(setting::kTrace);  // set for the ranks, too
  config.traced = trace != nullptr && *trace != '\0';
  const pid_t child = ::fork();
  if (child < 0) {
    std::fprintf(stderr, "outriggerd keep: cannot go to the background: %s\n", std::strerror(errno));
    return 1;
  }
  if (child > 0) ::_exit(0);
  (void)::signal(SIGPIPE, SIG_IGN);
  if (::chdir("/") != 0) {
    std::fprintf(stderr, "outriggerd keep: cannot leave its directory: %s\n", std::strerror(errno));
    return 1;
  }
  (void)::fcntl(listener.get(), F_SETFD, FD_CLOEXEC);
  (void)::fcntl(listener.get(), F_SETFL, O_NONBLOCK);
  reset_process_affinity();
  ask_for_short_slices();  // ranks wait for each step of the keeper; its service processes inherit it
  start_log("keeper");
  ProcessStarter starter;
  Keeper keeper(std::move(config), std::move(listener), starter);
  return keeper.run();
}

}  // namespace outrigger::service
