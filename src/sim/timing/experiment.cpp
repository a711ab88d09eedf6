#include "sim/timing/experiment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "sim/model/quantity.hpp"
#include "sim/timing/chosen_algorithm.hpp"
#include "sim/timing/largest_jobs.hpp"
#include "sim/timing/native_side.hpp"
#include "sim/timing/offloaded_side.hpp"
#include "sim/timing/program.hpp"
#include "sim/timing/shape.hpp"

namespace outrigger::sim::timing {
namespace {

// About an hour on one core; a million moves take about 20 million events.
constexpr std::uint64_t kMostEvents = 4'000'000'000;
constexpr std::uint32_t kMostRounds = 1000;
constexpr std::uint64_t kSides = 2;  // alternating, with separate buffers, as in bench/mpi/orbench.c
constexpr std::uint64_t kMostWork_ns = 3'600'000'000'000;
constexpr std::array kModelled{Collective::ialltoall, Collective::iallgather, Collective::ibcast,
                               Collective::iallreduce};

template <class Value>
Value median(std::vector<Value> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Choices {
  const baselines::Baseline* native = nullptr;
  RegularCall call;
};

std::string names_of_baselines(Collective collective) {
  std::string names = "default";
  for (const baselines::Baseline& known : baselines::all_baselines()) {
    if (known.collective == collective) names += fmt::format(", {}", known.name);
  }
  return names;
}

Result<Choices> choose(const ExperimentOptions& options, const model::Cluster& cluster) {
  const Places places(options.shape);
  const std::uint32_t ranks = places.ranks();
  const Collective collective = options.pattern.collective;
  Choices choices;
  choices.native = options.native == "default" ? baselines::default_baseline(cluster.mpi.family, collective, ranks,
                                                                             options.pattern.bytes, false)
                                               : baselines::baseline_named(collective, options.native);
  if (choices.native == nullptr) {
    return Error{fmt::format("native: '{}' is none of {}'s: {}", options.native, name_of(collective),
                             names_of_baselines(collective))};
  }
  if (choices.native->power_of_two && (ranks & (ranks - 1)) != 0) {
    return Error{fmt::format("native: {} is for a power of two of ranks, not for {}", options.native, ranks)};
  }
  const std::optional<Algorithm> algorithm =
      options.offloaded == "default"
          ? chosen_algorithm(places, *places.all_ranks(), cluster.network.wire, collective, options.pattern.bytes)
          : algorithm_named(options.offloaded);
  if (!algorithm || !has_algorithm(collective, *algorithm)) {
    return Error{fmt::format("algorithm: '{}' is none of {}'s", options.offloaded, name_of(collective))};
  }
  choices.call = RegularCall{collective, *algorithm, options.pattern.bytes, 0};
  return choices;
}

Status check(const model::Cluster& cluster, const ExperimentOptions& options) {
  const JobShape& shape = options.shape;
  if (Status fits = check_shape(cluster, shape); !fits) return fits;
  const std::uint64_t ranks = std::uint64_t{shape.nodes} * shape.ranks_per_node;
  if (ranks < 2 || ranks > kMostRanks) return Error{fmt::format("{} ranks: from 2 to {}", ranks, kMostRanks)};
  if (options.rounds == 0 || options.rounds > kMostRounds) return Error{fmt::format("rounds: 1 to {}", kMostRounds)};
  if (options.pattern.collective == Collective::iallreduce && options.pattern.bytes % 4 != 0) {
    return Error{"iallreduce: whole elements of 4 bytes"};
  }
  return Done();
}

// A new machine for each run, so that runs are independent.
struct Run {
  const model::Cluster& cluster;
  const ExperimentOptions& options;
  const Choices& choices;

  Result<RoundTimes> native(std::uint64_t work_ns, std::uint64_t& messages) const {
    const Workload work = workload();
    model::Machine machine = machine_for(work);
    NativeSide side(machine, work, options.native_threads);
    Result<RoundTimes> times = run_rounds(machine, side, rounds(work_ns));
    messages = side.hosts().messages();
    return times;
  }
  Result<RoundTimes> offloaded(std::uint64_t work_ns, std::uint64_t& moves) const {
    const Workload work = workload();
    model::Machine machine = machine_for(work);
    OffloadedSide side(machine, work);
    Result<RoundTimes> times = run_rounds(machine, side, rounds(work_ns));
    moves = side.moves();
    if (times && side.problem()) return Error{*side.problem()};
    return times;
  }
  [[nodiscard]] model::Machine machine_for(const Workload& work) const {
    return model::Machine(cluster, options.shape, kSides * bytes_on_a_node(work, options.shape));
  }
  [[nodiscard]] Workload workload() const {
    return one_call(Places(options.shape),
                    Call{choices.call.collective, choices.call.algorithm, choices.native, options.pattern.bytes});
  }
  [[nodiscard]] Rounds rounds(std::uint64_t work_ns) const {
    return Rounds{options.rounds, work_ns, options.seed, kMostEvents};
  }
};

std::uint64_t work_of(const WorkRule& work, const RoundTimes& native_pure, const RoundTimes& own_pure) {
  switch (work.kind) {
    case WorkRule::Kind::fixed: return work.fixed_ns;
    case WorkRule::Kind::own_pure: return median(own_pure.total_ns);
    case WorkRule::Kind::native_pure: break;
  }
  return median(native_pure.total_ns);
}

void fill(const RoundTimes& pure, const RoundTimes& total, SideTimes& times) {
  std::vector<std::uint64_t> exposed_ns;
  for (std::size_t i = 0; i < total.total_ns.size(); ++i) {
    exposed_ns.push_back(total.total_ns[i] - std::min(total.total_ns[i], total.work_alone_ns[i]));
  }
  times.pure_ns = median(pure.total_ns);
  times.total_ns = median(total.total_ns);
  times.exposed_ns = median(exposed_ns);
  times.in_mpi_ns = static_cast<std::uint64_t>(median(total.in_mpi_ns));
}

}  // namespace

Result<Pattern> parse_pattern(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const std::optional<Collective> collective = collective_named(name);
  if (!collective || std::ranges::find(kModelled, *collective) == kModelled.end()) {
    std::string known;
    for (const Collective each : kModelled) known += fmt::format("{}{}", known.empty() ? "" : ", ", name_of(each));
    return Error{fmt::format("pattern: '{}' is none of: {}", name, known)};
  }
  if (colon == std::string_view::npos) return Error{fmt::format("pattern: no bytes; write {}:64KiB", name)};
  const Result<std::uint64_t> bytes = model::parse_bytes(text.substr(colon + 1));
  if (!bytes) return Error{fmt::format("pattern: {}", bytes.error())};
  if (bytes.value() == 0 || bytes.value() > kMostBytes) return Error{"pattern: from 1 B to 1 GiB"};
  return Pattern{*collective, bytes.value()};
}

Result<WorkRule> parse_work_rule(std::string_view text) {
  if (text == "native") return WorkRule{WorkRule::Kind::native_pure, 0};
  if (text == "own") return WorkRule{WorkRule::Kind::own_pure, 0};
  const Result<std::uint64_t> time_ns = model::parse_time_ns(text);
  if (!time_ns) return Error{fmt::format("work: {}; or native, or own", time_ns.error())};
  if (time_ns.value() > kMostWork_ns) return Error{"work: up to an hour"};
  return WorkRule{WorkRule::Kind::fixed, time_ns.value()};
}

std::string text_of(const Pattern& pattern) {
  return fmt::format("{}:{}B", name_of(pattern.collective), pattern.bytes);
}

Result<ExperimentResult> run_experiment(const model::Cluster& cluster, const ExperimentOptions& options) {
  if (const Status possible = check(cluster, options); !possible) return Error{possible.error()};
  const Result<Choices> chosen = choose(options, cluster);
  if (!chosen) return Error{chosen.error()};
  const Run run{cluster, options, chosen.value()};
  ExperimentResult result;
  result.native.algorithm = chosen.value().native->name;
  result.offloaded.algorithm = name_of(chosen.value().call.algorithm);
  const Result<RoundTimes> native_pure = run.native(0, result.native_messages);
  if (!native_pure) return Error{fmt::format("native: {}", native_pure.error())};
  result.native.work_ns = work_of(options.work, native_pure.value(), native_pure.value());
  const Result<RoundTimes> native_total =
      result.native.work_ns == 0 ? native_pure : run.native(result.native.work_ns, result.native_messages);
  if (!native_total) return Error{fmt::format("native: {}", native_total.error())};
  const Result<RoundTimes> pure = run.offloaded(0, result.offloaded_moves);
  if (!pure) return Error{fmt::format("offloaded: {}", pure.error())};
  result.offloaded.work_ns = work_of(options.work, native_pure.value(), pure.value());
  const Result<RoundTimes> total =
      result.offloaded.work_ns == 0 ? pure : run.offloaded(result.offloaded.work_ns, result.offloaded_moves);
  if (!total) return Error{fmt::format("offloaded: {}", total.error())};
  fill(native_pure.value(), native_total.value(), result.native);
  fill(pure.value(), total.value(), result.offloaded);
  return result;
}

}  // namespace outrigger::sim::timing
