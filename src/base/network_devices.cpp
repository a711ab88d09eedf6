#include "base/network_devices.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>

namespace outrigger {
namespace {

// An address that other machines can reach.
bool is_address(const sockaddr* address) {
  if (address == nullptr) return false;
  if (address->sa_family == AF_INET) return true;
  return address->sa_family == AF_INET6 &&
         !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

}  // namespace

std::vector<std::string> active_network_devices() {
  std::vector<std::string> names;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return names;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> freed(all, ::freeifaddrs);
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    constexpr unsigned kActive = IFF_UP | IFF_RUNNING;
    if (is_address(one->ifa_addr) && (one->ifa_flags & (kActive | IFF_LOOPBACK)) == kActive)
      names.emplace_back(one->ifa_name);
  }
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

bool has_rdma_devices() {
  std::error_code none;
  return std::filesystem::directory_iterator("/sys/class/infiniband", none) != std::filesystem::directory_iterator();
}

}  // namespace outrigger
