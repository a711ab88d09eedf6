#include "sim/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace outrigger::sim {
namespace {

constexpr std::uint64_t kOneLargeIn = 200;  // one in so many scenarios has large blocks

std::uint64_t some_bytes(Random& random) {
  switch (random.below(6)) {
    case 0: return 0;
    case 1: return 1 + random.below(8);
    case 2: return 1 + random.below(4096);
    default: return 1 + random.below(200);
  }
}

std::vector<WorldRank> some_members(Random& random, std::uint32_t ranks) {
  std::vector<WorldRank> members;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) members.emplace_back(rank);
  const std::uint64_t shape = random.below(5);
  if (shape == 1) std::reverse(members.begin(), members.end());
  if (shape >= 2) {
    random.shuffle(members);
    members.resize(1 + random.below(ranks));
  }
  if (shape == 3) std::sort(members.begin(), members.end());
  return members;
}

using Matrix = std::vector<std::vector<std::uint64_t>>;

Matrix regular(Random& random, std::size_t size) {
  return Matrix(size, std::vector<std::uint64_t>(size, some_bytes(random)));
}

Matrix irregular(Random& random, std::size_t size) {
  const double zero_chance = random.chance(0.3) ? 0.8 : 0.2;
  Matrix bytes(size, std::vector<std::uint64_t>(size, 0));
  for (auto& row : bytes) {
    for (std::uint64_t& cell : row) cell = random.chance(zero_chance) ? 0 : some_bytes(random);
  }
  return bytes;
}

// One length per source.
Matrix by_source(Random& random, std::size_t size) {
  Matrix bytes = irregular(random, size);
  for (auto& row : bytes) std::fill(row.begin(), row.end(), row.front());
  return bytes;
}

// From the root to all others.
Matrix from_root(Random& random, std::size_t size, std::size_t root) {
  Matrix bytes(size, std::vector<std::uint64_t>(size, 0));
  std::fill(bytes[root].begin(), bytes[root].end(), some_bytes(random));
  bytes[root][root] = 0;
  return bytes;
}

// To the root, from all ranks the same length or not.
Matrix to_root(Random& random, std::size_t size, std::size_t root, bool alike) {
  Matrix bytes = alike ? regular(random, size) : irregular(random, size);
  for (auto& row : bytes) {
    for (std::size_t to = 0; to < size; ++to) {
      if (to != root) row[to] = 0;
    }
  }
  return bytes;
}

// From the root, a different block for each rank.
Matrix of_root(Random& random, std::size_t size, std::size_t root, bool alike) {
  Matrix bytes = alike ? regular(random, size) : irregular(random, size);
  for (std::size_t from = 0; from < size; ++from) {
    if (from != root) std::fill(bytes[from].begin(), bytes[from].end(), 0);
  }
  return bytes;
}

// Each rank's part of a reduction; the same for all sources.
Matrix to_reduce(Random& random, std::size_t size, const OperationPlan& plan) {
  const std::uint64_t width = plan.reduction->element_bytes();
  Matrix bytes = plan.collective == Collective::ireduce_scatter ? irregular(random, size) : regular(random, size);
  for (auto& row : bytes) {
    row = bytes.front();
    for (std::size_t to = 0; to < size; ++to) {
      row[to] -= row[to] % width;
      const bool gets_none = is_for_root(plan.collective) && to != plan.root;
      if (gets_none || (plan.collective == Collective::iexscan && to == 0)) row[to] = 0;
    }
  }
  return bytes;
}

// Rings, stars, and sparse graphs; also with edges from a rank to itself.
std::vector<std::vector<std::uint8_t>> some_edges(Random& random, std::size_t size) {
  const double chance = random.chance(0.3) ? 0.8 : 0.25;
  const bool both_ways = random.chance(0.5);
  std::vector<std::vector<std::uint8_t>> edges(size, std::vector<std::uint8_t>(size, 0));
  for (std::size_t from = 0; from < size; ++from) {
    for (std::size_t to = 0; to < size; ++to) {
      if (!random.chance(chance)) continue;
      edges[from][to] = 1;
      if (both_ways) edges[to][from] = 1;
    }
  }
  return edges;
}

// Only along the edges.
Matrix along(Random& random, const std::vector<std::vector<std::uint8_t>>& edges) {
  Matrix bytes = irregular(random, edges.size());
  for (std::size_t from = 0; from < edges.size(); ++from) {
    for (std::size_t to = 0; to < edges.size(); ++to) {
      if (edges[from][to] == 0) bytes[from][to] = 0;
    }
  }
  return bytes;
}

Collective some_collective(Random& random, Algorithm algorithm) {
  std::vector<Collective> served;
  for (const CollectiveRow& row : kCollectives) {
    if (has_algorithm(row.collective, algorithm)) served.push_back(row.collective);
  }
  return served[random.below(served.size())];
}

// With rounding, wrap-around, and ties that the order decides.
Reduction some_reduction(Random& random) {
  constexpr std::array kSome{
      Reduction{ReduceOperation::sum, ElementType::float32}, Reduction{ReduceOperation::sum, ElementType::float64},
      Reduction{ReduceOperation::prod, ElementType::int32}, Reduction{ReduceOperation::bxor, ElementType::byte},
      Reduction{ReduceOperation::maxloc, ElementType::two_int}};
  return kSome[random.below(kSome.size())];
}

OperationPlan make_operation(Random& random, std::size_t size, Algorithm algorithm, const FaultOptions& faults) {
  OperationPlan plan;
  plan.collective = some_collective(random, algorithm);
  if (plan.collective == Collective::ibarrier) {
    plan.sent = Matrix(size, std::vector<std::uint64_t>(size, 0));
  } else if (is_of_neighbors(plan.collective)) {
    plan.edges = some_edges(random, size);
    plan.sent = along(random, plan.edges);
  } else if (plan.broadcasts()) {
    plan.root = static_cast<std::uint32_t>(random.below(size));
    plan.sent = from_root(random, size, plan.root);
  } else if (plan.gathers_at_root()) {
    plan.root = static_cast<std::uint32_t>(random.below(size));
    plan.sent = to_root(random, size, plan.root, plan.regular());
  } else if (plan.scatters()) {
    plan.root = static_cast<std::uint32_t>(random.below(size));
    plan.sent = of_root(random, size, plan.root, plan.regular());
  } else if (plan.reduces()) {
    plan.reduction = some_reduction(random);
    if (is_for_root(plan.collective)) plan.root = static_cast<std::uint32_t>(random.below(size));
    plan.sent = to_reduce(random, size, plan);
  } else if (plan.regular()) {
    plan.sent = regular(random, size);
  } else {
    plan.sent = plan.gathers() ? by_source(random, size) : irregular(random, size);
  }
  plan.expected = plan.sent;
  if (random.chance(faults.differing_sizes_chance) && !plan.regular()) {
    plan.wrong_sizes = true;
    const bool has_root = plan.broadcasts() || plan.gathers_at_root() || plan.scatters();
    const bool by_pair = has_root || is_of_neighbors(plan.collective);
    for (auto& row : plan.expected) {
      for (std::uint64_t& cell : row) {
        if (random.chance(0.3) && (!by_pair || cell != 0)) cell = some_bytes(random);
      }
    }
  }
  plan.differs.assign(size, 0);
  if (random.chance(faults.differing_kinds_chance)) {
    plan.wrong_kinds = true;
    plan.differs[random.below(size)] = 1;
  }
  for (std::size_t i = 0; i < size; ++i) {
    const bool may_be = plan.gathers_at_root() ? i == plan.root : plan.gathers() && !plan.broadcasts();
    const bool in_place = may_be && !plan.wrong_sizes && random.chance(0.3);
    plan.in_place.push_back(in_place ? 1 : 0);
    plan.own_block_done.push_back(!plan.reduces() && (in_place || plan.broadcasts() || random.chance(0.5)) ? 1 : 0);
  }
  if (plan.scatters() && random.chance(0.3)) {  // the root leaves its own block in place
    plan.expected[plan.root][plan.root] = 0;
    plan.own_block_done[plan.root] = 1;
  }
  return plan;
}

// Merges the groups' sequences; each group keeps its order.
std::vector<Step> interleave(Random& random, std::vector<std::vector<Step>> queues, bool differing) {
  std::vector<Step> merged;
  std::vector<std::size_t> next(queues.size(), 0);
  for (;;) {
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < queues.size(); ++i) {
      if (next[i] < queues[i].size()) open.push_back(i);
    }
    if (open.empty()) return merged;
    const std::size_t pick = differing ? open[random.below(open.size())] : open.front();
    merged.push_back(queues[pick][next[pick]++]);
  }
}

std::vector<Step> make_steps(Random& random, const Scenario& scenario, WorldRank rank, std::uint32_t rounds,
                             const FaultOptions& faults) {
  std::vector<Step> steps;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    std::vector<std::vector<Step>> queues;
    for (std::uint32_t group = 0; group < scenario.groups.size(); ++group) {
      const GroupPlan& plan = scenario.groups[group];
      if (std::find(plan.members->begin(), plan.members->end(), rank) == plan.members->end()) continue;
      std::vector<Step> queue;
      const std::size_t count = plan.operations.size();
      for (std::uint64_t sequence = round * count / rounds; sequence < (round + 1) * count / rounds; ++sequence) {
        queue.push_back(Step{group, sequence, round});
      }
      queues.push_back(std::move(queue));
    }
    const std::vector<Step> merged = interleave(random, std::move(queues), faults.differing_post_orders);
    steps.insert(steps.end(), merged.begin(), merged.end());
  }
  return steps;
}

}  // namespace

Scenario make_scenario(std::uint64_t seed, Algorithm algorithm, const FaultOptions& faults) {
  Random random(seed ^ 0x5CE4A210ULL);
  Scenario scenario;
  const bool large = random.below(kOneLargeIn) == 0;
  scenario.nodes = static_cast<std::uint32_t>(1 + random.below(large ? 16 : 4));
  const auto per_node = static_cast<std::uint32_t>(1 + random.below(4));
  const auto ranks = static_cast<std::uint32_t>(1 + random.below(large ? 64 : 12));
  scenario.services = scenario.nodes * per_node;
  for (std::uint32_t sp = 0; sp < scenario.services; ++sp) scenario.node_of_sp.push_back(sp / per_node);
  const bool strided = random.chance(0.3);  // ranks round-robin over the nodes
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::uint32_t node = strided ? rank % scenario.nodes : rank * scenario.nodes / ranks;
    scenario.sp_of_rank.emplace_back(node * per_node + (strided ? rank / scenario.nodes : rank) % per_node);
  }
  scenario.limits.window_moves = static_cast<std::uint32_t>(1 + random.below(random.chance(0.5) ? 3 : 16));
  scenario.limits.announce_credits = static_cast<std::uint32_t>(1 + random.below(3));
  scenario.limits.message_bytes = random.chance(0.5) ? 32768 : static_cast<std::uint32_t>(64 + random.below(200));
  const std::uint64_t groups = 1 + random.below(large ? 2 : 4);
  for (std::uint64_t index = 0; index < groups; ++index) {
    GroupPlan group;
    group.id = GroupId{seed, index + 1};
    group.members = std::make_shared<const std::vector<WorldRank>>(some_members(random, ranks));
    const std::uint64_t count = 1 + random.below(large ? 2 : 5);
    for (std::uint64_t i = 0; i < count; ++i) {
      group.operations.push_back(make_operation(random, group.members->size(), algorithm, faults));
    }
    scenario.groups.push_back(std::move(group));
  }
  const auto rounds = static_cast<std::uint32_t>(1 + random.below(3));
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    scenario.steps.push_back(make_steps(random, scenario, WorldRank{rank}, rounds, faults));
  }
  if (random.chance(0.7)) scenario.limits.split_bytes = 1 + random.below(40);
  if (random.chance(0.7)) scenario.limits.segment_bytes = 1 + random.below(80);
  if (random.chance(0.5)) scenario.limits.near_window_moves = static_cast<std::uint32_t>(1 + random.below(16));
  scenario.limits.near_window_bytes = random.below(40);
  return scenario;
}

std::string Scenario::describe() const {
  std::string text = fmt::format(
      "{} nodes, {} service processes, {} ranks, windows {} and {}, credits {}, messages of {} bytes", nodes, services,
      ranks(), limits.window_moves, limits.near_window_moves, limits.announce_credits, limits.message_bytes);
  for (std::size_t index = 0; index < groups.size(); ++index) {
    text += fmt::format("\n  group {}:", index);
    for (const WorldRank member : *groups[index].members) text += fmt::format(" {}", member.value());
    text += fmt::format("  ({} operations)", groups[index].operations.size());
  }
  return text;
}

}  // namespace outrigger::sim
