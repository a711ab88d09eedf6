// A route of a service process's data to other nodes, as published to its ranks for the report.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace outrigger {

inline constexpr std::size_t kWireTransportsBytes = 124;
inline constexpr std::uint32_t kMaxWireRoutes = 4;  // of one service process; further ones are not told

struct WireRoute {
  std::uint32_t moves_memory = 0;  // 1: the network moves memory (RDMA); 0: processors copy messages
  std::array<char, kWireTransportsBytes> transports{};  // like "rc_verbs/mlx5_0:1"; several are separated by commas

  [[nodiscard]] std::string_view kind() const { return moves_memory != 0 ? "rdma" : "messages"; }
  friend bool operator==(const WireRoute&, const WireRoute&) = default;
};
static_assert(sizeof(WireRoute) == 128);

// Transports that do not fit are left out.
[[nodiscard]] inline WireRoute make_wire_route(bool moves_memory, std::string_view transports) {
  WireRoute route;
  route.moves_memory = moves_memory ? 1 : 0;
  std::ranges::copy(transports.substr(0, kWireTransportsBytes - 1), route.transports.begin());
  return route;
}

// Also safe for a route that another process wrote.
[[nodiscard]] inline std::string transports_of(const WireRoute& route) {
  return {route.transports.begin(), std::ranges::find(route.transports, '\0')};
}

[[nodiscard]] inline std::string text_of(const WireRoute& route) {
  return std::string(route.kind()) + " (" + transports_of(route) + ")";
}

}  // namespace outrigger
