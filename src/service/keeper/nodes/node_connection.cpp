#include "service/keeper/nodes/node_connection.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/any_port.hpp"

namespace outrigger::service {
namespace {

constexpr int kMostWaitingNodes = 1024;  // backlog of the listener

// As an IPv6 address; nullopt: other machines cannot connect to it.
std::optional<KeeperPlace::Address> address_of(const sockaddr& address) {
  KeeperPlace::Address bytes{};
  if (address.sa_family == AF_INET) {
    bytes[10] = bytes[11] = 0xFF;
    std::memcpy(bytes.data() + 12, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
    return bytes;
  }
  if (address.sa_family != AF_INET6) return std::nullopt;
  const in6_addr& in6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  if (IN6_IS_ADDR_LINKLOCAL(&in6) || IN6_IS_ADDR_MULTICAST(&in6)) return std::nullopt;  // only valid on this machine
  std::memcpy(bytes.data(), &in6, bytes.size());
  return bytes;
}

// Addresses of the interfaces that are up, loopback last.
std::vector<KeeperPlace::Address> own_addresses() {
  ifaddrs* all = nullptr;
  std::vector<KeeperPlace::Address> addresses;
  if (::getifaddrs(&all) != 0) return addresses;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> freed(all, ::freeifaddrs);
  for (const bool loopback : {false, true}) {
    for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
      const bool up = one->ifa_addr != nullptr && (one->ifa_flags & IFF_UP) != 0;
      if (!up || ((one->ifa_flags & IFF_LOOPBACK) != 0) != loopback) continue;
      if (const auto address = address_of(*one->ifa_addr)) addresses.push_back(*address);
    }
  }
  if (addresses.size() > kMaxKeeperAddresses) addresses.resize(kMaxKeeperAddresses);
  return addresses;
}

bool is_of_ipv4(const KeeperPlace::Address& address) {
  return std::all_of(address.begin(), address.begin() + 10, [](std::uint8_t byte) { return byte == 0; }) &&
         address[10] == 0xFF && address[11] == 0xFF;
}

// Without IPv6, the machine has no sockets for IPv4 addresses in IPv6 form either.
socklen_t write_socket_address(const KeeperPlace::Address& address, std::uint16_t port, sockaddr_storage& to) {
  to = {};
  if (is_of_ipv4(address)) {
    auto& in = reinterpret_cast<sockaddr_in&>(to);
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    std::memcpy(&in.sin_addr, address.data() + 12, 4);
    return sizeof(in);
  }
  auto& in6 = reinterpret_cast<sockaddr_in6&>(to);
  in6.sin6_family = AF_INET6;
  in6.sin6_port = htons(port);
  std::memcpy(&in6.sin6_addr, address.data(), address.size());
  return sizeof(in6);
}

}  // namespace

NodeListener listen_for_nodes() {
  Result<ListeningPort> listening = listen_at_any_port(kMostWaitingNodes);
  if (!listening) return {};
  return {std::move(listening.value().socket), {listening.value().port, own_addresses()}};
}

NodeConnection NodeConnection::call(const KeeperPlace::Address& address, std::uint16_t port, const Secret& secret) {
  sockaddr_storage place{};
  const socklen_t bytes = write_socket_address(address, port, place);
  NodeConnection connection(UniqueFd(::socket(place.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), secret);
  connection.side_ = proof::DpuHandshake::Side::host;
  connection.connecting_ = true;
  const bool begun =
      connection.socket_.valid() &&
      (::connect(connection.fd(), reinterpret_cast<sockaddr*>(&place), bytes) == 0 || errno == EINPROGRESS);
  if (!begun) connection.end(std::strerror(errno));
  return connection;
}

bool NodeConnection::is_connected() {
  pollfd awaited{fd(), POLLOUT, 0};
  if (::poll(&awaited, 1, 0) <= 0) return false;
  int error = 0;
  socklen_t bytes = sizeof(error);
  (void)::getsockopt(fd(), SOL_SOCKET, SO_ERROR, &error, &bytes);
  if (error != 0) end(std::strerror(error));
  return error == 0;
}

void NodeConnection::work() {
  if (over()) return;
  if (connecting_ && !is_connected()) return;
  connecting_ = false;
  if (!handshake_) handshake_.emplace(fd(), side_, secret_);
  if (!handshake_->done()) {
    if (const Status status = handshake_->go_on(); !status) return end(status.error());
    if (!handshake_->done()) return;
  }
  flush();
  take_in();
}

void NodeConnection::send(const NodeNews& news) {
  append(outgoing_, news);
  flush();
}

void NodeConnection::flush() {
  while (!over() && !outgoing_.empty()) {
    const ssize_t sent = ::send(fd(), outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return;
    if (sent < 0) return end(std::strerror(errno));
    outgoing_.erase(outgoing_.begin(), outgoing_.begin() + sent);
  }
}

// Bytes that arrived before the connection ended are still read.
void NodeConnection::take_in() {
  std::array<std::byte, 4096> part{};
  while (!over() && incoming_.size() < kMostNodeNewsBytes) {
    const ssize_t got = ::recv(fd(), part.data(), part.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return end(got == 0 ? "the other end closed the connection" : std::strerror(errno));
    incoming_.insert(incoming_.end(), part.begin(), part.begin() + got);
  }
}

std::optional<NodeNews> NodeConnection::next() {
  Result<std::optional<Parsed<NodeNews>>> parsed = parse<NodeNews>(incoming_);
  if (!parsed) {
    incoming_.clear();
    end("it " + parsed.error());
    return std::nullopt;
  }
  if (!parsed.value()) return std::nullopt;
  Parsed<NodeNews>& first = *parsed.value();
  incoming_.erase(incoming_.begin(), incoming_.begin() + static_cast<std::ptrdiff_t>(first.bytes));
  return std::move(first.message);
}

}  // namespace outrigger::service
