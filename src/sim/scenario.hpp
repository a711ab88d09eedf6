// One small random job: nodes, service processes, ranks, communicators, and the calls of each rank in order. Depends
// only on the seed and the algorithm.
#pragma once

#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "fabric/sim/options.hpp"
#include "fabric/sim/random.hpp"
#include "protocol/collective.hpp"
#include "protocol/ids.hpp"

namespace outrigger::sim {

using fabric::sim::FaultOptions;
using fabric::sim::Random;

struct OperationPlan {
  Collective collective = Collective::ialltoall;
  // Bytes by [source][destination], in group ranks: sent by the source, and expected by the destination.
  std::vector<std::vector<std::uint64_t>> sent;
  std::vector<std::vector<std::uint64_t>> expected;
  // [source][destination]: the destination is a neighbor of the source. Only for neighborhood collectives.
  std::vector<std::vector<std::uint8_t>> edges;
  std::vector<std::uint8_t> own_block_done;  // by group rank
  std::vector<std::uint8_t> in_place;        // by group rank: its send data are in its receive buffer (gathers only)
  std::vector<std::uint8_t> differs;         // by group rank: makes a different call (an erroneous program)
  bool wrong_kinds = false;
  bool wrong_sizes = false;
  std::uint32_t root = 0;
  std::optional<Reduction> reduction;

  // One rank sends the same to all others.
  [[nodiscard]] bool broadcasts() const { return collective == Collective::ibcast; }
  // Each rank sends its own block to one rank.
  [[nodiscard]] bool gathers_at_root() const { return is_for_root(collective) && !reduces(); }
  // The contributions of all ranks are combined, for all.
  [[nodiscard]] bool reduces() const { return is_reduction(collective); }
  // Each rank gets its own part of the result.
  [[nodiscard]] bool reduces_by_parts() const {
    return collective == Collective::ireduce_scatter_block || collective == Collective::ireduce_scatter;
  }
  // Bytes of each contribution; begin of a rank's part in the result; ranks per part.
  [[nodiscard]] std::uint64_t vector_bytes() const {
    if (reduces_by_parts()) return part_offset(sent.size());
    return is_prefix(collective) ? sent[0].back() : sent[0][root];
  }
  [[nodiscard]] std::uint64_t part_offset(std::size_t rank) const {
    if (!reduces_by_parts()) return 0;
    return std::accumulate(sent[0].begin(), sent[0].begin() + static_cast<std::ptrdiff_t>(rank), std::uint64_t{0});
  }
  [[nodiscard]] std::size_t operands_of(std::size_t rank) const {
    if (collective == Collective::iexscan) return rank;
    return collective == Collective::iscan ? rank + 1 : sent.size();
  }
  // Every rank gets the same block of a source.
  [[nodiscard]] bool gathers() const {
    return collective == Collective::iallgather || collective == Collective::iallgatherv || broadcasts();
  }
  // One rank sends a different block to each.
  [[nodiscard]] bool scatters() const { return is_rooted(collective) && !broadcasts(); }
  // No rank completes before all have posted; no blocks.
  [[nodiscard]] bool meets() const { return collective == Collective::ibarrier; }
  // Equally long blocks, equally spaced.
  [[nodiscard]] bool regular() const {
    return meets() || collective == Collective::ialltoall || collective == Collective::iallgather ||
           collective == Collective::igather || collective == Collective::iscatter || reduces();
  }
};

struct GroupPlan {
  GroupId id;
  std::shared_ptr<const std::vector<WorldRank>> members;
  std::vector<OperationPlan> operations;  // by sequence
};

// A rank posts its steps in order; before the first step of a round it waits until all its earlier ones are done.
struct Step {
  std::uint32_t group = 0;
  std::uint64_t sequence = 0;
  std::uint32_t round = 0;
};

struct Scenario {
  std::uint32_t nodes = 1;
  std::uint32_t services = 1;
  std::vector<SpId> sp_of_rank;
  std::vector<std::uint32_t> node_of_sp;
  engine::EngineLimits limits;
  std::vector<GroupPlan> groups;
  std::vector<std::vector<Step>> steps;  // by world rank

  [[nodiscard]] std::size_t ranks() const { return sp_of_rank.size(); }
  [[nodiscard]] std::string describe() const;
  [[nodiscard]] std::uint32_t node_of(WorldRank rank) const { return node_of_sp[sp_of_rank[rank.value()].value()]; }
};

// Only collectives that the algorithm serves.
[[nodiscard]] Scenario make_scenario(std::uint64_t seed, Algorithm algorithm, const FaultOptions& faults);

}  // namespace outrigger::sim
