#include "client/start/abstract_socket.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

namespace outrigger::client {
namespace {

struct AbstractAddress {
  sockaddr_un address{};
  socklen_t bytes = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

AbstractAddress address_of(std::string_view name) {
  AbstractAddress result;
  result.address.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof(result.address.sun_path) - 1);
  std::memcpy(result.address.sun_path + 1, name.data(), length);
  result.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return result;
}

}  // namespace

Result<UniqueFd> listen_at(std::string_view name) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const AbstractAddress address = address_of(name);
  if (!fd.valid() || ::bind(fd.get(), address.get(), address.bytes) != 0 || ::listen(fd.get(), SOMAXCONN) != 0) {
    return Error{std::string("cannot create the keeper's socket: ") + std::strerror(errno)};
  }
  return fd;
}

ConnectOutcome connect_to(std::string_view name, UniqueFd& fd) {
  fd.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return ConnectOutcome::failed;
  const AbstractAddress address = address_of(name);
  if (::connect(fd.get(), address.get(), address.bytes) == 0) return ConnectOutcome::connected;
  const int reason = errno;
  fd.reset();
  errno = reason;
  if (reason == ECONNREFUSED) return ConnectOutcome::nobody;
  return reason == EAGAIN || reason == EINTR ? ConnectOutcome::later : ConnectOutcome::failed;
}

}  // namespace outrigger::client
