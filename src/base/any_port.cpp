#include "base/any_port.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace outrigger {
namespace {

// Invalid if it fails, or the address family is missing.
UniqueFd listen_at(int family, int most_waiting) {
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_storage every_address{};
  every_address.ss_family = static_cast<sa_family_t>(family);
  const int off = 0;
  if (family == AF_INET6) (void)::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  const socklen_t bytes = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  const bool listens = ::bind(fd.get(), reinterpret_cast<sockaddr*>(&every_address), bytes) == 0 &&
                       ::listen(fd.get(), most_waiting) == 0;
  return listens ? std::move(fd) : UniqueFd();
}

}  // namespace

Result<ListeningPort> listen_at_any_port(int most_waiting) {
  ListeningPort listening;
  listening.socket = listen_at(AF_INET6, most_waiting);
  if (!listening.socket.valid()) listening.socket = listen_at(AF_INET, most_waiting);
  sockaddr_storage place{};
  socklen_t bytes = sizeof(place);
  if (!listening.socket.valid() ||
      ::getsockname(listening.socket.get(), reinterpret_cast<sockaddr*>(&place), &bytes) != 0) {
    return Error{std::string("cannot listen on any port: ") + std::strerror(errno)};
  }
  listening.port = ntohs(place.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(place).sin6_port
                                                     : reinterpret_cast<sockaddr_in&>(place).sin_port);
  return listening;
}

}  // namespace outrigger
