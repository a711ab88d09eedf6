#include "mpi/report/wire_use.hpp"

#include <algorithm>
#include <array>
#include <type_traits>

#include "mpi/native/constants.hpp"
#include "mpi/native/real.hpp"
#include "mpi/start/job.hpp"

namespace outrigger::mpi {
namespace {

// Of one rank or of one node. A node with more different routes tells of the first ones.
struct Routes {
  std::uint32_t count = 0;
  std::array<WireRoute, kMaxWireRoutes> routes{};
};
static_assert(std::is_trivially_copyable_v<Routes>);

void add(Routes& all, const WireRoute& route) {
  const auto end = all.routes.begin() + all.count;
  if (all.count < kMaxWireRoutes && std::find(all.routes.begin(), end, route) == end) all.routes[all.count++] = route;
}

// On rank 0 of the communicator, one of each rank.
std::vector<Routes> gathered(const Routes& mine, std::uint32_t ranks, MPI_Comm comm) {
  std::vector<Routes> all(ranks);
  const int bytes = static_cast<int>(sizeof mine);
  real().Gather(&mine, bytes, constants().byte, all.data(), bytes, constants().byte, 0, comm);
  return all;
}

}  // namespace

std::vector<report::WireUse> gather_wire_use(const Job& job) {
  if (job.nodes == 1) return {};
  Routes mine;
  for (const WireRoute& route : job.client->statistics().wire_routes) add(mine, route);
  const std::vector<Routes> of_ranks = gathered(mine, job.local_size, job.node_comm);
  if (job.local_rank != 0) return {};
  Routes node;
  for (const Routes& rank : of_ranks) std::for_each_n(rank.routes.begin(), rank.count, [&](auto& r) { add(node, r); });
  std::vector<report::WireUse> uses;
  for (const Routes& other : gathered(node, job.nodes, job.node_leaders)) {
    for (std::uint32_t i = 0; i < other.count; ++i) {
      auto use = std::ranges::find(uses, other.routes[i], &report::WireUse::route);
      if (use == uses.end()) use = uses.insert(use, report::WireUse{other.routes[i], 0});
      ++use->nodes;
    }
  }
  return uses;
}

}  // namespace outrigger::mpi
