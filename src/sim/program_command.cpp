#include "sim/program_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/complaint.hpp"
#include "sim/model/cluster.hpp"
#include "sim/model/quantity.hpp"
#include "sim/timing/lanes.hpp"

namespace outrigger::sim {
namespace {

using timing::Lane;
using timing::LaneOptions;
using timing::ScriptTimes;

constexpr std::uint32_t kMostSeeds = 1000;

// One repetition, in us.
struct Figures {
  double step_us = 0;
  double work_us = 0;
  double exposed_us = 0;
  double in_mpi_us = 0;
};

Figures figures_of(const ScriptTimes& times, std::uint32_t repeat) {
  const double us = 1000.0 * repeat;
  const std::uint64_t exposed_ns = times.total_ns - std::min(times.total_ns, times.work_alone_ns);
  return {static_cast<double>(times.total_ns) / us, static_cast<double>(times.work_alone_ns) / us,
          static_cast<double>(exposed_ns) / us, times.in_mpi_ns / us};
}

void print_json(const std::string& lane, std::uint64_t seed, const Figures& figures) {
  const nlohmann::json line = {{"lane", lane},
                               {"seed", seed},
                               {"step_us", figures.step_us},
                               {"work_us", figures.work_us},
                               {"exposed_us", figures.exposed_us},
                               {"in_mpi_us", figures.in_mpi_us}};
  fmt::print("{}\n", line.dump());
}

Result<std::map<std::string, std::string>> rules(const char* option, const std::vector<std::string>& words) {
  std::map<std::string, std::string> names;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || !collective_named(word.substr(0, equals))) {
      return Error{fmt::format("{}: '{}' is not a rule; write ialltoall=NAME", option, word)};
    }
    names[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return names;
}

}  // namespace

struct ProgramCommand::Arguments {
  LaneOptions options;
  std::string cluster;
  std::string program;
  std::vector<std::string> lanes;
  std::vector<std::string> native;
  std::vector<std::string> algorithms;
  std::string test_every = "100 us";
  std::string mapping = "contiguous";
  std::uint32_t nodes = 0;
  std::uint32_t services = 0;
  std::uint32_t seeds = 1;
  bool json = false;

  Status read_options() {
    const auto native_rules = rules("--native", native);
    if (!native_rules) return Error{native_rules.error()};
    const auto offloaded_rules = rules("--algorithm", algorithms);
    if (!offloaded_rules) return Error{offloaded_rules.error()};
    const Result<std::uint64_t> every_ns = model::parse_time_ns(test_every);
    if (!every_ns) return Error{fmt::format("--test-every: {}", every_ns.error())};
    if (every_ns.value() == 0) return Error{"--test-every: more than 0"};
    options.native = native_rules.value();
    options.algorithms = offloaded_rules.value();
    options.test_every_ns = every_ns.value();
    options.shape.mapping = mapping == "strided" ? Mapping::strided : Mapping::contiguous;
    if (lanes.empty()) lanes.assign(timing::kLaneNames.begin(), timing::kLaneNames.end());
    return Done();
  }

  Status read_shape(const model::Cluster& known, std::uint32_t ranks) {
    options.shape.nodes = nodes == 0 ? known.nodes : nodes;
    if (ranks % options.shape.nodes != 0) {
      return Error{fmt::format("--nodes: {} do not divide the program's {} ranks", options.shape.nodes, ranks)};
    }
    options.shape.ranks_per_node = ranks / options.shape.nodes;
    options.shape.services = services == 0 ? std::min(known.service.per_node, options.shape.ranks_per_node) : services;
    return Done();
  }

  Status run_lane(const model::Cluster& known, const timing::Script& script, const std::string& name) const {
    LaneOptions one = options;
    std::vector<Figures> all;
    for (std::uint32_t run = 0; run < seeds; ++run) {
      one.seed = options.seed + run;
      const Result<ScriptTimes> times = timing::run_lane(known, script, *timing::lane_named(name), one);
      if (!times) return Error{fmt::format("{}: {}", name, times.error())};
      all.push_back(figures_of(times.value(), script.repeat));
      if (json) print_json(name, one.seed, all.back());
    }
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
    std::ranges::nth_element(all, middle, {}, &Figures::step_us);
    if (!json) {
      fmt::print("  {:<12} {:>12.1f} {:>12.1f} {:>12.1f} {:>12.1f}\n", name, middle->step_us, middle->work_us,
                 middle->exposed_us, middle->in_mpi_us);
    }
    std::fflush(stdout);
    return Done();
  }
};

ProgramCommand::ProgramCommand(CLI::App& parent) : arguments_(std::make_unique<Arguments>()) {
  command_ = parent.add_subcommand(
      "program", "Predicts a program's times on a modelled cluster: natively in several ways, and offloaded.");
  Arguments& arguments = *arguments_;
  LaneOptions& options = arguments.options;
  command_->add_option("--cluster", arguments.cluster, "the cluster's file, e.g. from clusters/")->required();
  command_->add_option("--program", arguments.program, "file of the program's steps (docs/using/prediction.md)")
      ->required();
  command_->add_option("--nodes", arguments.nodes, "nodes of the job; default: all of the cluster");
  command_->add_option("--services", arguments.services, "service processes on each; default: from the cluster's file");
  command_->add_option("--mapping", arguments.mapping, "mapping of ranks to nodes")
      ->check(CLI::IsMember({"contiguous", "strided"}))
      ->capture_default_str();
  const std::vector<std::string> names(timing::kLaneNames.begin(), timing::kLaneNames.end());
  command_->add_option("--lane", arguments.lanes, "a way to run it; may be repeated; default: all")
      ->check(CLI::IsMember(names));
  command_->add_option("--native", arguments.native, "native algorithm: ialltoall=pairwise; may be repeated");
  command_->add_option("--algorithm", arguments.algorithms, "algorithm when offloaded: ialltoall=scatter_dest");
  command_->add_flag("--offload-blocking", options.offload_blocking, "offload blocking calls, too");
  command_->add_option("--work-factor", options.service_work_factor, "factor for work if services or threads get cores")
      ->check(CLI::Range(0.01, 100.0))
      ->capture_default_str();
  command_->add_option("--test-every", arguments.test_every, "interval of MPI_Test in the lane `testing`")
      ->capture_default_str();
  command_->add_option("--seed", options.seed, "first seed of noise and skew")->capture_default_str();
  command_->add_option("--seeds", arguments.seeds, "number of seeds; without --json medians are printed")
      ->check(CLI::Range(1U, kMostSeeds))
      ->capture_default_str();
  command_->add_flag("--json", arguments.json, "a line of JSON for each lane and seed");
}

ProgramCommand::~ProgramCommand() = default;

bool ProgramCommand::chosen() const {
  return command_->parsed();
}

int ProgramCommand::run() const {
  const Result<model::Cluster> cluster = model::read_cluster(arguments_->cluster);
  if (!cluster) return fail(cluster.error());
  const Result<timing::Script> script = timing::read_script(arguments_->program);
  if (!script) return fail(script.error());
  if (const Status read = arguments_->read_options(); !read) return fail(read.error());
  if (const Status fits = arguments_->read_shape(cluster.value(), script.value().ranks); !fits) {
    return fail(fits.error());
  }
  if (!arguments_->json) {
    fmt::print("us of a repetition        step         work      exposed       in MPI\n");
  }
  for (const std::string& lane : arguments_->lanes) {
    const Status done = arguments_->run_lane(cluster.value(), script.value(), lane);
    if (!done) return fail(done.error());
  }
  return 0;
}

}  // namespace outrigger::sim
