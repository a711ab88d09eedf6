#include "sim/time_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/complaint.hpp"
#include "sim/model/cluster.hpp"
#include "sim/timing/experiment.hpp"
#include "sim/timing/one_node.hpp"

namespace outrigger::sim {
namespace {

using timing::ExperimentOptions;
using timing::ExperimentResult;
using timing::SideTimes;

double us(std::uint64_t time_ns) {
  return static_cast<double>(time_ns) / 1000;
}

nlohmann::json as_json(const SideTimes& times) {
  return {{"algorithm", times.algorithm},   {"pure_us", us(times.pure_ns)},       {"work_us", us(times.work_ns)},
          {"total_us", us(times.total_ns)}, {"exposed_us", us(times.exposed_ns)}, {"in_mpi_us", us(times.in_mpi_ns)}};
}

nlohmann::json as_json(const model::Cluster& cluster, const ExperimentOptions& options,
                       const ExperimentResult& result) {
  return {{"cluster", cluster.name},
          {"pattern", timing::text_of(options.pattern)},
          {"nodes", options.shape.nodes},
          {"ranks_per_node", options.shape.ranks_per_node},
          {"services", options.shape.services},
          {"mapping", options.shape.mapping == Mapping::strided ? "strided" : "contiguous"},
          {"native_threads", options.native_threads},
          {"rounds", options.rounds},
          {"seed", options.seed},
          {"work_us", us(result.native.work_ns)},
          {"native", as_json(result.native)},
          {"offloaded", as_json(result.offloaded)}};
}

std::string duration(std::uint64_t time_ns) {
  if (time_ns < 10'000'000) return fmt::format("{:.1f} us", us(time_ns));
  return fmt::format("{:.2f} ms", us(time_ns) / 1000);
}

void print_line(const char* side, const SideTimes& times) {
  fmt::print("  {:<10} {:<20} {:>12} {:>12} {:>12} {:>12}\n", side, times.algorithm, duration(times.pure_ns),
             duration(times.exposed_ns), duration(times.total_ns), duration(times.in_mpi_ns));
}

std::string work_of(const ExperimentResult& result) {
  std::string native = duration(result.native.work_ns);
  if (result.native.work_ns == result.offloaded.work_ns) return native;
  return fmt::format("{} natively, {} offloaded", native, duration(result.offloaded.work_ns));
}

void print(const ExperimentOptions& options, const ExperimentResult& result) {
  fmt::print("{}, {} nodes of {} ranks, {} service process{} each; work of {}\n", timing::text_of(options.pattern),
             options.shape.nodes, options.shape.ranks_per_node, options.shape.services,
             options.shape.services == 1 ? "" : "es", work_of(result));
  fmt::print("  {:<10} {:<20} {:>12} {:>12} {:>12} {:>12}\n", "", "", "pure", "exposed", "total", "in MPI");
  print_line("native", result.native);
  print_line("offloaded", result.offloaded);
}

nlohmann::json as_json(const model::Cluster& cluster, const ExperimentOptions& options,
                       const timing::OneNodeResult& result) {
  return {{"cluster", cluster.name},
          {"pattern", timing::text_of(options.pattern)},
          {"nodes", options.shape.nodes},
          {"ranks_per_node", options.shape.ranks_per_node},
          {"services", options.shape.services},
          {"seed", options.seed},
          {"pure_us", us(result.pure_ns)},
          {"service_busy_us", us(result.busy_ns)},
          {"service_moves", result.moves},
          {"service_messages_sent", result.messages_sent},
          {"service_messages_received", result.messages_received},
          {"link_bytes", result.link_bytes}};
}

void print(const ExperimentOptions& options, const timing::OneNodeResult& result) {
  fmt::print("{}, {} nodes of {} ranks, {} service process{} each; one node counted, its peers symbolic\n",
             timing::text_of(options.pattern), options.shape.nodes, options.shape.ranks_per_node,
             options.shape.services, options.shape.services == 1 ? "" : "es");
  fmt::print("  pure {}, a service process's core busy for {}\n", duration(result.pure_ns), duration(result.busy_ns));
  fmt::print("  a service process: {} moves, {} messages sent, {} received\n", result.moves, result.messages_sent,
             result.messages_received);
}

Status run_one(const model::Cluster& cluster, const ExperimentOptions& options, bool one_node, bool json) {
  const auto show = [&](const auto& result) -> Status {
    if (!result) return Error{result.error()};
    if (json) {
      fmt::print("{}\n", as_json(cluster, options, result.value()).dump());
    } else {
      print(options, result.value());
    }
    std::fflush(stdout);
    return Done();
  };
  if (!one_node) return show(timing::run_experiment(cluster, options));
  if (options.pattern.collective != Collective::ialltoall) return Error{"--one-node: only for ialltoall"};
  return show(
      timing::time_one_node(cluster, timing::OneNodeOptions{options.shape, options.pattern.bytes, options.seed}));
}

}  // namespace

struct TimeCommand::Arguments {
  ExperimentOptions options;
  std::string cluster;
  std::vector<std::string> patterns;
  std::uint32_t nodes = 0;
  std::uint32_t ranks_per_node = 0;
  std::uint32_t services = 0;
  std::string mapping = "contiguous";
  std::string work = "native";
  bool one_node = false;
  bool json = false;
};

TimeCommand::TimeCommand(CLI::App& parent) : arguments_(std::make_unique<Arguments>()) {
  command_ = parent.add_subcommand(
      "time",
      "Predicts times of collectives on a modelled cluster, natively and offloaded, alone and with equal computation.");
  Arguments& arguments = *arguments_;
  ExperimentOptions& options = arguments.options;
  command_->add_option("--cluster", arguments.cluster, "the cluster's file, e.g. from clusters/")->required();
  command_->add_option("--pattern", arguments.patterns, "collective and block size: ialltoall:64KiB; may be repeated")
      ->required();
  command_->add_option("--nodes", arguments.nodes, "nodes of the job; default: all of the cluster");
  command_->add_option("--ranks-per-node", arguments.ranks_per_node, "ranks on each; default: one per core");
  command_->add_option("--services", arguments.services, "service processes on each; default: from the cluster's file");
  command_->add_option("--mapping", arguments.mapping, "mapping of ranks to nodes")
      ->check(CLI::IsMember({"contiguous", "strided"}))
      ->capture_default_str();
  command_->add_option("--native", options.native, "the natives' algorithm; default: what MPICH takes")
      ->capture_default_str();
  command_
      ->add_option("--work", arguments.work,
                   "computation of the ranks: native, as long as native's pure latency; own, each side as long as its "
                   "own, as the OSU benchmarks do; or a time: '2 ms'")
      ->capture_default_str();
  command_->add_flag("--native-threads", options.native_threads,
                     "native has progress threads, on as many cores of their own as there are service processes");
  command_->add_option("--algorithm", options.offloaded, "the service processes' algorithm")->capture_default_str();
  command_->add_option("--rounds", options.rounds, "rounds per measurement; the median is printed")
      ->capture_default_str();
  command_->add_option("--seed", options.seed, "seed of noise and skew")->capture_default_str();
  command_->add_flag("--one-node", arguments.one_node,
                     "ialltoall by ring_pull on any number of nodes: one node counted, its peers symbolic");
  command_->add_flag("--json", arguments.json, "a line of JSON for each pattern");
}

TimeCommand::~TimeCommand() = default;

bool TimeCommand::chosen() const {
  return command_->parsed();
}

int TimeCommand::run() const {
  const Result<model::Cluster> cluster = model::read_cluster(arguments_->cluster);
  if (!cluster) return fail(cluster.error());
  ExperimentOptions options = arguments_->options;
  const auto given = [](std::uint32_t value, std::uint32_t otherwise) { return value == 0 ? otherwise : value; };
  options.shape.nodes = given(arguments_->nodes, cluster.value().nodes);
  options.shape.ranks_per_node = given(arguments_->ranks_per_node, cluster.value().host.cores);
  options.shape.services =
      given(arguments_->services, std::min(cluster.value().service.per_node, options.shape.ranks_per_node));
  const Result<timing::WorkRule> work = timing::parse_work_rule(arguments_->work);
  if (!work) return fail(work.error());
  options.work = work.value();
  options.shape.mapping = arguments_->mapping == "strided" ? Mapping::strided : Mapping::contiguous;
  for (const std::string& text : arguments_->patterns) {
    const Result<timing::Pattern> pattern = timing::parse_pattern(text);
    if (!pattern) return fail(pattern.error());
    options.pattern = pattern.value();
    const Status done = run_one(cluster.value(), options, arguments_->one_node, arguments_->json);
    if (!done) return fail(done.error());
  }
  return 0;
}

}  // namespace outrigger::sim
