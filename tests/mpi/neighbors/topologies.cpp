#include "topologies.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <utility>

#include "../programs/native_twin.hpp"

namespace neighbors {
namespace {

using differential::Random;

int size_of(MPI_Comm communicator) {
  int size = 0;
  MPI_Comm_size(communicator, &size);
  return size;
}

int rank_in(MPI_Comm communicator) {
  int rank = 0;
  MPI_Comm_rank(communicator, &rank);
  return rank;
}

// With short dimensions, many of them periodic: repeated neighbors, or the rank itself.
MPI_Comm make_grid(MPI_Comm parent, Random& random, std::string& name) {
  const int dimensions = random.between(1, 3);
  std::array<int, 3> lengths{};
  std::array<int, 3> periodic{};
  MPI_Dims_create(size_of(parent), dimensions, lengths.data());
  for (int i = dimensions; i > 1; --i) {
    std::swap(lengths[static_cast<std::size_t>(i - 1)], lengths[static_cast<std::size_t>(random.below(i))]);
  }
  name = "grid";
  for (std::size_t i = 0; i < static_cast<std::size_t>(dimensions); ++i) {
    periodic[i] = random.chance(60) ? 1 : 0;
    name += " " + std::to_string(lengths[i]) + (periodic[i] != 0 ? "p" : "");
  }
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Cart_create(parent, dimensions, lengths.data(), periodic.data(), random.chance(50) ? 1 : 0, &made);
  return made;
}

// Edges of `size` ranks, some of them repeated or from a rank to itself.
std::vector<std::array<int, 2>> some_edges(Random& random, int size) {
  std::vector<std::array<int, 2>> edges;
  const int count = random.chance(10) ? 0 : random.between(1, 3 * size);
  for (int i = 0; i < count; ++i) {
    if (!edges.empty() && random.chance(20)) {
      edges.push_back(edges[static_cast<std::size_t>(random.below(i))]);
    } else {
      edges.push_back({random.below(size), random.below(size)});
    }
  }
  return edges;
}

// Every edge goes both ways.
MPI_Comm make_graph(MPI_Comm parent, Random& random, std::string& name) {
  const int size = size_of(parent);
  std::vector<std::vector<int>> of_rank(static_cast<std::size_t>(size));
  for (const auto& [from, to] : some_edges(random, size)) {
    of_rank[static_cast<std::size_t>(from)].push_back(to);
    if (from != to) of_rank[static_cast<std::size_t>(to)].push_back(from);
  }
  std::vector<int> ends;
  std::vector<int> edges;
  for (const std::vector<int>& others : of_rank) {
    edges.insert(edges.end(), others.begin(), others.end());
    ends.push_back(static_cast<int>(edges.size()));
  }
  edges.push_back(0);  // never empty, for MPIs that check the pointer
  name = "graph of " + std::to_string(ends.back()) + " edges";
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Graph_create(parent, size, ends.data(), edges.data(), random.chance(50) ? 1 : 0, &made);
  return made;
}

// Each rank names its own neighbors, in any order.
MPI_Comm make_adjacent(MPI_Comm parent, Random& random, std::string& name) {
  const int me = rank_in(parent);
  std::vector<int> sources;
  std::vector<int> destinations;
  for (const auto& [from, to] : some_edges(random, size_of(parent))) {
    if (to == me) sources.push_back(from);
    if (from == me) destinations.push_back(to);
  }
  const bool weighted = random.chance(50);
  name = weighted ? "adjacent, weighted" : "adjacent";
  Random own(differential::mix({random.next(), static_cast<std::uint64_t>(me)}));
  for (std::vector<int>* list : {&sources, &destinations}) {
    for (std::size_t i = list->size(); i > 1; --i) {
      std::swap((*list)[i - 1], (*list)[static_cast<std::size_t>(own.below(static_cast<int>(i)))]);
    }
  }
  const std::vector<int> weights(std::max(sources.size(), destinations.size()) + 1, 1);
  const auto in = static_cast<int>(sources.size());
  const auto out = static_cast<int>(destinations.size());
  sources.push_back(0);
  destinations.push_back(0);
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Dist_graph_create_adjacent(parent, in, sources.data(), weighted ? weights.data() : MPI_UNWEIGHTED, out,
                                 destinations.data(), weighted ? weights.data() : MPI_UNWEIGHTED, MPI_INFO_NULL,
                                 random.chance(50) ? 1 : 0, &made);
  return made;
}

// Each rank names edges of any ranks.
MPI_Comm make_distributed(MPI_Comm parent, Random& random, std::string& name) {
  const int me = rank_in(parent);
  const int size = size_of(parent);
  std::vector<int> from;
  std::vector<int> degrees;
  std::vector<int> to;
  for (const auto& [one, other] : some_edges(random, size)) {
    if (random.below(size) != me) continue;
    from.push_back(one);
    degrees.push_back(1);
    to.push_back(other);
  }
  const auto count = static_cast<int>(from.size());
  for (std::vector<int>* list : {&from, &degrees, &to}) list->push_back(0);
  const std::vector<int> weights(to.size(), 1);
  name = "distributed graph";
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Dist_graph_create(parent, count, from.data(), degrees.data(), to.data(), weights.data(), MPI_INFO_NULL, 0, &made);
  return made;
}

MPI_Comm make(MPI_Comm parent, Random& random, std::string& name) {
  switch (random.below(4)) {
    case 0: return make_graph(parent, random, name);
    case 1: return make_adjacent(parent, random, name);
    case 2: return make_distributed(parent, random, name);
    default: return make_grid(parent, random, name);
  }
}

void list_neighbors(Topology& topology) {
  int kind = MPI_UNDEFINED;
  MPI_Topo_test(topology.offloaded, &kind);
  int count = 0;
  if (kind == MPI_CART) {
    MPI_Cartdim_get(topology.offloaded, &count);
    topology.sources.resize(static_cast<std::size_t>(2 * count));
    for (int i = 0; i < count; ++i) {
      int* pair = &topology.sources[static_cast<std::size_t>(2 * i)];
      MPI_Cart_shift(topology.offloaded, i, 1, pair, pair + 1);
    }
    topology.destinations = topology.sources;
  } else if (kind == MPI_GRAPH) {
    MPI_Graph_neighbors_count(topology.offloaded, topology.rank, &count);
    topology.sources.resize(static_cast<std::size_t>(count));
    MPI_Graph_neighbors(topology.offloaded, topology.rank, count, topology.sources.data());
    topology.destinations = topology.sources;
  } else {
    int out = 0;
    int weighted = 0;
    MPI_Dist_graph_neighbors_count(topology.offloaded, &count, &out, &weighted);
    topology.sources.resize(static_cast<std::size_t>(count));
    topology.destinations.resize(static_cast<std::size_t>(out));
    std::vector<int> weights(static_cast<std::size_t>(std::max(count, out)) + 1);
    MPI_Dist_graph_neighbors(topology.offloaded, count, topology.sources.data(), weights.data(), out,
                             topology.destinations.data(), weights.data());
  }
}

}  // namespace

void wait_patiently(MPI_Request* request) {
  int done = 0;
  while (done == 0) {
    MPI_Test(request, &done, MPI_STATUS_IGNORE);
    if (done == 0) sched_yield();
  }
}

Topologies::Topologies(MPI_Comm parent, Random random) {
  const int rank = rank_in(parent);
  for (int i = 0; i < 4; ++i) {
    // All ranks in their order or another one, or all but one.
    const int shape = random.below(3);
    const int left_out = size_of(parent) > 1 && shape == 2 ? random.below(size_of(parent)) : -1;
    MPI_Comm members;
    MPI_Comm_split(parent, rank == left_out ? MPI_UNDEFINED : 0, shape == 1 ? -rank : rank, &members);
    std::string name;
    const std::uint64_t seed = random.next();
    if (members == MPI_COMM_NULL) {
      add("", MPI_COMM_NULL);
      continue;
    }
    Random own(seed);
    MPI_Comm made = make(members, own, name);
    if (own.chance(30)) {
      MPI_Comm dup;
      MPI_Comm_dup(made, &dup);
      MPI_Comm_free(&made);
      made = dup;
      name = "dup of " + name;
    }
    add(name, made);
    MPI_Comm_free(&members);
  }
}

void Topologies::add(std::string name, MPI_Comm communicator) {
  Topology topology;
  topology.name = std::move(name);
  topology.offloaded = communicator;
  if (communicator != MPI_COMM_NULL) {
    topology.native = native_twin(communicator);
    topology.rank = rank_in(communicator);
    topology.size = size_of(communicator);
    list_neighbors(topology);
  }
  all_.push_back(std::move(topology));
}

Topologies::~Topologies() {
  for (Topology& topology : all_) {
    if (topology.offloaded == MPI_COMM_NULL) continue;
    MPI_Comm_free(&topology.native);
    MPI_Comm_free(&topology.offloaded);
  }
}

}  // namespace neighbors
