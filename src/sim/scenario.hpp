// One small random job: nodes, service processes, ranks, communicators, and what each rank calls in which order.
// Follows from the seed alone.
#pragma once

#include <cstdint>
#include <memory>
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
  // Bytes by [source][destination], in group ranks: what the source sends and what the destination has room for.
  std::vector<std::vector<std::uint64_t>> sent;
  std::vector<std::vector<std::uint64_t>> expected;
  std::vector<std::uint8_t> own_block_done;  // by group rank
  std::vector<std::uint8_t> differs;         // by group rank: calls something else (a wrong program)
  bool wrong_kinds = false;
};

struct GroupPlan {
  GroupId id;
  std::shared_ptr<const std::vector<WorldRank>> members;
  std::vector<OperationPlan> operations;  // by sequence
};

// A rank posts its steps in order; before the first step of a round it waits until all of its earlier ones are done.
struct Step {
  std::uint32_t group = 0;
  std::uint64_t sequence = 0;
  std::uint32_t round = 0;
};

struct Scenario {
  std::uint32_t nodes = 1;
  std::uint32_t services = 1;
  std::vector<SpId> sp_of_rank;
  engine::EngineLimits limits;
  std::vector<GroupPlan> groups;
  std::vector<std::vector<Step>> steps;  // by world rank

  [[nodiscard]] std::size_t ranks() const { return sp_of_rank.size(); }
  [[nodiscard]] std::string describe() const;
};

[[nodiscard]] Scenario make_scenario(std::uint64_t seed, const FaultOptions& faults);

}  // namespace outrigger::sim
