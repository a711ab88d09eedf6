#include "group/nodes/own_address.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace outrigger::group {
namespace {

constexpr std::string_view kAnOuterAddress = "192.0.2.1";  // of RFC 5737; nothing is sent there

socklen_t bytes_of(const sockaddr& address) {
  if (address.sa_family == AF_INET) return sizeof(sockaddr_in);
  return address.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : 0;
}

std::optional<Address> known(const sockaddr* address) {
  if (address == nullptr || bytes_of(*address) == 0) return std::nullopt;
  Address made{.place = {}, .bytes = bytes_of(*address)};
  std::memcpy(&made.place, address, made.bytes);
  return made;
}

bool is_loopback(const Address& address) {
  if (address.place.ss_family == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in&>(address.place).sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  const in6_addr& six = reinterpret_cast<const sockaddr_in6&>(address.place).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == IN_LOOPBACKNET);
}

// The first one that fits, of IPv4 before IPv6.
std::optional<Address> address_of_device(const std::function<bool(const ifaddrs&)>& fits) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return std::nullopt;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> held(all, &::freeifaddrs);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
      if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != family || !fits(*one)) continue;
      return known(one->ifa_addr);
    }
  }
  return std::nullopt;
}

// Where packets to that host would come from. A datagram socket sends nothing when it is connected.
std::optional<Address> address_of_route(const std::string& host) {
  addrinfo* found = nullptr;
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  if (::getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> held(found, &::freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const UniqueFd socket(::socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    Address address{.place = {}, .bytes = sizeof(sockaddr_storage)};
    if (socket.valid() && ::connect(socket.get(), one->ai_addr, one->ai_addrlen) == 0 &&
        ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address.place), &address.bytes) == 0 &&
        !is_loopback(address)) {
      return address;
    }
  }
  return std::nullopt;
}

std::optional<Address> chosen_address() {
  if (const char* host = std::getenv("MASTER_ADDR"); host != nullptr && *host != '\0') {
    if (const auto address = address_of_route(host)) return address;
  }
  if (const auto address = address_of_route(std::string(kAnOuterAddress))) return address;
  const auto is_up = [](const ifaddrs& one) {
    return (one.ifa_flags & IFF_UP) != 0 && (one.ifa_flags & IFF_LOOPBACK) == 0;
  };
  if (const auto address = address_of_device(is_up)) return address;
  return address_of_device([](const ifaddrs&) { return true; });
}

}  // namespace

Result<Address> own_address(std::uint16_t port) {
  const char* names = std::getenv(kDeviceVariable);
  const std::string name = names == nullptr ? "" : std::string(names, std::strcspn(names, ","));
  std::optional<Address> address =
      name.empty() ? chosen_address()
                   : address_of_device([&](const ifaddrs& one) { return std::string_view(one.ifa_name) == name; });
  if (!address && !name.empty()) {
    return Error{std::string(kDeviceVariable) + "=" + names + ": there is no network device " + name +
                 " with an address"};
  }
  if (!address) return Error{"no network device has an address"};
  if (address->place.ss_family == AF_INET) {
    reinterpret_cast<sockaddr_in&>(address->place).sin_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in6&>(address->place).sin6_port = htons(port);
  }
  return *address;
}

}  // namespace outrigger::group
