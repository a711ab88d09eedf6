// The current state of a simulated job: posts of its ranks, live service processes, broken invariants. Programs,
// service processes and invariants share it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.hpp"
#include "fabric/sim/sim_fabric.hpp"
#include "sim/scenario.hpp"
#include "sim/simulation.hpp"

namespace outrigger::sim {

// One operation of one rank: models the slot in its segment, which outlives the service process.
struct Slot {
  std::uint32_t group = 0;
  std::uint64_t sequence = 0;
  GroupRank me;
  engine::BlockLayout send;
  engine::BlockLayout receive;
  std::uint32_t send_buffer = 0;
  std::uint32_t receive_buffer = 0;
  std::vector<std::byte> image;     // expected final content of the receive buffer
  std::vector<std::uint8_t> marks;  // BlockMark by group rank
  bool completed = false;           // its rank has seen it
};

struct Rank {
  std::vector<Slot> slots;
  std::size_t next_step = 0;
  std::map<std::uint32_t, std::uint64_t> posted;  // group -> operations posted
  std::map<std::uint32_t, std::uint64_t> done;    // group -> operations completed
  std::map<std::uint32_t, bool> freed;            // group -> freed
  bool attached = true;                           // known to its service process
  bool absent = false;                            // posts nothing until the job is quiet
  bool lost = false;                              // its process has died
  bool forgotten = false;                         // lost, and its service process does not know what it had completed

  [[nodiscard]] bool anything_open() const {
    return !lost && std::ranges::any_of(slots, [](const Slot& slot) { return !slot.completed; });
  }
  [[nodiscard]] bool has_completed(std::uint32_t group, std::uint64_t sequence) const {
    return std::ranges::any_of(
        slots, [&](const Slot& slot) { return slot.completed && slot.group == group && slot.sequence == sequence; });
  }
};

struct Service {
  SpId id;
  std::uint32_t epoch = 1;
  bool alive = true;
  std::unique_ptr<fabric::sim::SimFabric> fabric;
  std::unique_ptr<engine::Engine> engine;
  std::deque<std::function<void(engine::Engine&)>> inbox;
  bool step_scheduled = false;
};

struct JobState {
  JobState(const SimulationOptions& simulation_options, fabric::sim::Observer& observer)
      : options(simulation_options),
        scenario(make_scenario(options.seed, options.algorithm, options.faults)),
        world(options.seed, options.faults, scenario.ranks(), observer),
        services(scenario.services),
        ranks(scenario.ranks()) {}

  const SimulationOptions& options;
  Scenario scenario;
  fabric::sim::World world;
  std::vector<Service> services;
  std::vector<Rank> ranks;
  SimulationResult result;

  template <class... Args>
  void trace(fmt::format_string<Args...> format, Args&&... args) {
    if (options.trace) {
      fmt::print("{:>10} ns  {}\n", world.time.now_ns(), fmt::format(format, std::forward<Args>(args)...));
    }
  }
  // Only the first violation counts; it ends the simulation.
  void broken(std::string what) {
    if (!result.broken) result.broken = std::move(what);
  }
  [[nodiscard]] Service& service(SpId id) { return services[id.value()]; }
  [[nodiscard]] Service& service_of(WorldRank rank) { return service(scenario.sp_of_rank[rank.value()]); }
  // A member may have been lost before it had completed the operation.
  [[nodiscard]] bool has_lost_member(const Slot& slot) const {
    return std::ranges::any_of(*scenario.groups[slot.group].members, [&](WorldRank member) {
      const Rank& rank = ranks[member.value()];
      return rank.lost && (rank.forgotten || !rank.has_completed(slot.group, slot.sequence));
    });
  }
  [[nodiscard]] const OperationPlan& plan_of(const Slot& slot) const {
    return scenario.groups[slot.group].operations[slot.sequence];
  }
};

}  // namespace outrigger::sim
