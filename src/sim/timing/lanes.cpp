#include "sim/timing/lanes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/timing/chosen_algorithm.hpp"
#include "sim/timing/hybrid_side.hpp"
#include "sim/timing/native_side.hpp"
#include "sim/timing/shape.hpp"

namespace outrigger::sim::timing {
namespace {

constexpr std::uint64_t kMostEventsOfALane = 4'000'000'000;  // about an hour of one core

Status check(const model::Cluster& cluster, const Script& script, const LaneOptions& options) {
  const JobShape& shape = options.shape;
  if (Status fits = check_shape(cluster, shape); !fits) return fits;
  if (std::uint64_t{shape.nodes} * shape.ranks_per_node != script.ranks) {
    return Error{fmt::format("{} nodes of {} ranks: the program is for {} ranks", shape.nodes, shape.ranks_per_node,
                             script.ranks)};
  }
  return Done();
}

const std::vector<WorldRank>& largest_group(const Communicator& communicator) {
  return **std::ranges::max_element(communicator.groups, {}, [](const auto& group) { return group->size(); });
}

const std::string* name_for(const std::map<std::string, std::string>& names, Collective collective) {
  const auto found = names.find(std::string(name_of(collective)));
  return found == names.end() || found->second == "default" ? nullptr : &found->second;
}

Status choose_native(const Workload& workload, const LaneOptions& options, model::MpiFamily family, bool blocking,
                     Call& call) {
  const Communicator& communicator = workload.communicators[call.communicator];
  const auto size = static_cast<std::uint32_t>(largest_group(communicator).size());
  const std::string* const name = name_for(options.native, call.collective);
  call.native = name == nullptr ? baselines::default_baseline(family, call.collective, size, call.bytes, blocking)
                                : baselines::baseline_named(call.collective, *name);
  if (call.native == nullptr) {
    return Error{
        fmt::format("native: '{}' is none of {}'s", name == nullptr ? "default" : *name, name_of(call.collective))};
  }
  const bool uneven = std::ranges::any_of(communicator.groups,
                                          [](const auto& group) { return (group->size() & (group->size() - 1)) != 0; });
  if (call.native->power_of_two && uneven) {
    return Error{
        fmt::format("native: {} of {} is for a power of two of ranks", call.native->name, name_of(call.collective))};
  }
  return Done();
}

Status choose_offloaded(const Workload& workload, const LaneOptions& options, model::WireKind wire, Call& call) {
  const std::string* const name = name_for(options.algorithms, call.collective);
  const std::vector<WorldRank>& members = largest_group(workload.communicators[call.communicator]);
  const std::optional<Algorithm> algorithm =
      name == nullptr ? chosen_algorithm(Places(options.shape), members, wire, call.collective, call.bytes)
                      : algorithm_named(*name);
  if (!algorithm || !has_algorithm(call.collective, *algorithm)) {
    return Error{
        fmt::format("algorithm: '{}' is none of {}'s", name == nullptr ? "default" : *name, name_of(call.collective))};
  }
  call.algorithm = *algorithm;
  return Done();
}

Status choose(const LaneOptions& options, const model::Cluster& cluster, bool all_block, Script& script) {
  Workload& workload = script.workload;
  for (std::size_t number = 0; number < workload.calls.size(); ++number) {
    Call& call = workload.calls[number];
    const bool blocking = all_block || script.blocking[number];
    if (Status chosen = choose_native(workload, options, cluster.mpi.family, blocking, call); !chosen) return chosen;
    if (Status chosen = choose_offloaded(workload, options, cluster.network.wire, call); !chosen) return chosen;
  }
  return Done();
}

// Inserts a wait behind each post; the original wait then returns at once.
void make_blocking(Script& script) {
  std::vector<Step> steps;
  for (const Step& step : script.steps) {
    steps.push_back(step);
    if (const Post* const post = std::get_if<Post>(&step)) steps.emplace_back(Wait{{post->request}});
  }
  script.steps = std::move(steps);
}

Result<ScriptTimes> run_offloaded(model::Machine& machine, const Script& script, bool offload_blocking,
                                  const ScriptOptions& options) {
  HybridSide side(machine, script.workload,
                  offload_blocking ? std::vector<bool>(script.blocking.size()) : script.blocking);
  Result<ScriptTimes> times = run_script(machine, side, script, options);
  if (times && side.problem()) return Error{*side.problem()};
  return times;
}

}  // namespace

std::optional<Lane> lane_named(std::string_view name) {
  const auto found = std::ranges::find(kLaneNames, name);
  if (found == kLaneNames.end()) return std::nullopt;
  return static_cast<Lane>(found - kLaneNames.begin());
}

Result<ScriptTimes> run_lane(const model::Cluster& cluster, const Script& program, Lane lane,
                             const LaneOptions& options) {
  if (const Status possible = check(cluster, program, options); !possible) return Error{possible.error()};
  Script script = program;
  const bool all_block = lane == Lane::blocking;
  if (const Status chosen = choose(options, cluster, all_block, script); !chosen) return Error{chosen.error()};
  if (all_block) make_blocking(script);
  const bool gives_cores = lane == Lane::threads || lane == Lane::offloaded;
  const ScriptOptions run{options.seed, gives_cores ? options.service_work_factor : 1,
                          lane == Lane::testing ? options.test_every_ns : 0, kMostEventsOfALane};
  model::Machine machine(cluster, options.shape, bytes_on_a_node(script.workload, options.shape));
  if (lane == Lane::offloaded) return run_offloaded(machine, script, options.offload_blocking, run);
  NativeSide side(machine, script.workload, lane == Lane::threads);
  return run_script(machine, side, script, run);
}

}  // namespace outrigger::sim::timing
