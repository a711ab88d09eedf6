#include "mpi/report/wire_use.hpp"

#include <algorithm>
#include <array>
#include <type_traits>

#include "mpi/job/job.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/real.hpp"

namespace outrigger::mpi {
namespace {

// Routes of one rank or node. Further ones than fit are left out.
struct Routes {
  std::uint32_t count = 0;
  std::array<WireRoute, kMaxWireRoutes> routes{};
};
static_assert(std::is_trivially_copyable_v<Routes>);

void add(Routes& all, const WireRoute& route) {
  const auto end = all.routes.begin() + all.count;
  if (all.count < kMaxWireRoutes && std::find(all.routes.begin(), end, route) == end) all.routes[all.count++] = route;
}

void add(Routes& all, const Routes& others) {
  std::for_each_n(others.routes.begin(), others.count, [&](const WireRoute& route) { add(all, route); });
}

}  // namespace

std::vector<report::WireUse> gather_wire_use(const Job& job) {
  if (job.nodes == 1) return {};
  Routes mine;
  for (const WireRoute& route : job.client->statistics().wire_routes) add(mine, route);
  std::vector<Routes> of_ranks(job.world_rank == 0 ? job.world_size : 0);
  const int bytes = static_cast<int>(sizeof mine);
  real().Gather(&mine, bytes, constants().byte, of_ranks.data(), bytes, constants().byte, 0, constants().comm_world);
  std::vector<Routes> of_nodes(job.nodes);
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) add(of_nodes[job.places[rank].node], of_ranks[rank]);
  std::vector<report::WireUse> uses;
  for (const Routes& node : of_nodes) {
    for (std::uint32_t i = 0; i < node.count; ++i) {
      auto use = std::ranges::find(uses, node.routes[i], &report::WireUse::route);
      if (use == uses.end()) use = uses.insert(use, report::WireUse{node.routes[i], 0});
      ++use->nodes;
    }
  }
  return uses;
}

}  // namespace outrigger::mpi
