#include "mpi/communicators/neighbors.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "mpi/native/real.hpp"

namespace outrigger::mpi {
namespace {

struct Lists {
  Topology topology = Topology::none;
  std::vector<int> sources;
  std::vector<int> destinations;
};

std::vector<int> of_size(int count) {
  return std::vector<int>(static_cast<std::size_t>(std::max(count, 0)));
}

// For each dimension the one below, then the one above.
Lists on_grid(MPI_Comm comm) {
  int dimensions = 0;
  real().Cartdim_get(comm, &dimensions);
  std::vector<int> all = of_size(2 * dimensions);
  for (int i = 0; i < dimensions; ++i) {
    int* below = all.data() + static_cast<std::ptrdiff_t>(2) * i;
    real().Cart_shift(comm, i, 1, below, below + 1);
  }
  return {Topology::cartesian, all, all};
}

Lists on_graph(MPI_Comm comm) {
  int rank = 0;
  int count = 0;
  real().Comm_rank(comm, &rank);
  real().Graph_neighbors_count(comm, rank, &count);
  std::vector<int> all = of_size(count);
  real().Graph_neighbors(comm, rank, count, all.data());
  return {Topology::graph, all, all};
}

Lists on_distributed_graph(MPI_Comm comm) {
  int sources = 0;
  int destinations = 0;
  int weighted = 0;
  real().Dist_graph_neighbors_count(comm, &sources, &destinations, &weighted);
  Lists lists{Topology::distributed_graph, of_size(sources), of_size(destinations)};
  std::vector<int> in_weights = of_size(sources + 1);
  std::vector<int> out_weights = of_size(destinations + 1);
  real().Dist_graph_neighbors(comm, sources, lists.sources.data(), in_weights.data(), destinations,
                              lists.destinations.data(), out_weights.data());
  return lists;
}

Lists lists_of(MPI_Comm comm) {
  int topology = MPI_UNDEFINED;
  real().Topo_test(comm, &topology);
  if (topology == MPI_CART) return on_grid(comm);
  if (topology == MPI_GRAPH) return on_graph(comm);
  if (topology == MPI_DIST_GRAPH) return on_distributed_graph(comm);
  return {};
}

// Orders the places of one neighbor.
std::uint32_t turn_of(std::uint32_t place, std::uint32_t listed, NeighborOrder order) {
  switch (order) {
    case NeighborOrder::in_turn: return place;
    case NeighborOrder::reversed: return listed - 1 - place;
    case NeighborOrder::opposite: return place ^ 1U;
  }
  return place;
}

NeighborSide side_of(const std::vector<int>& list, NeighborOrder order) {
  NeighborSide side;
  side.listed = static_cast<std::uint32_t>(list.size());
  for (std::uint32_t place = 0; place < side.listed; ++place) {
    if (list[place] >= 0) side.places.push_back(place);  // MPI_PROC_NULL is negative
  }
  std::ranges::sort(side.places, [&](std::uint32_t a, std::uint32_t b) {
    if (list[a] != list[b]) return list[a] < list[b];
    return turn_of(a, side.listed, order) < turn_of(b, side.listed, order);
  });
  for (std::uint32_t i = 0; i < side.places.size(); ++i) {
    const auto rank = static_cast<std::uint32_t>(list[side.places[i]]);
    if (!side.ranks.empty() && side.ranks.back() == rank) continue;
    side.ranks.push_back(rank);
    side.first.push_back(i);
  }
  side.first.push_back(static_cast<std::uint32_t>(side.places.size()));
  return side;
}

std::unique_ptr<const Neighbors> ask(MPI_Comm comm) {
  const Lists lists = lists_of(comm);
  auto neighbors = std::make_unique<Neighbors>();
  neighbors->topology = lists.topology;
  neighbors->destinations = side_of(lists.destinations, NeighborOrder::in_turn);
  for (std::size_t order = 0; order < kNeighborOrders; ++order) {
    neighbors->sources[order] = side_of(lists.sources, static_cast<NeighborOrder>(order));
  }
  return neighbors;
}

}  // namespace

const Neighbors* KnownNeighbors::of(MPI_Comm comm) {
  const Neighbors* known = known_.load(std::memory_order_acquire);
  if (known == nullptr) {
    std::unique_ptr<const Neighbors> asked = ask(comm);
    // Another thread may have been first.
    if (known_.compare_exchange_strong(known, asked.get(), std::memory_order_acq_rel)) known = asked.release();
  }
  return known->topology == Topology::none ? nullptr : known;
}

}  // namespace outrigger::mpi
