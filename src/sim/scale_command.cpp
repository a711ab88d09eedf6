#include "sim/scale_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "sim/complaint.hpp"
#include "sim/scale.hpp"
#include "sim/whole_job.hpp"

namespace outrigger::sim {
namespace {

constexpr std::array<const char*, engine::EngineCounters::kMessageKinds> kKinds = {
    "announce",        "delivered",      "release",      "finished", "refusal",
    "replica_request", "replica_answer", "replica_done", "quiesce",  "overdue"};

Arrival arrival_named(const std::string& name) {
  if (name == "early") return Arrival::early;
  if (name == "late") return Arrival::late;
  return Arrival::spread;
}

using Messages = std::array<engine::EngineCounters::Messages, engine::EngineCounters::kMessageKinds>;

nlohmann::json as_json(const Messages& messages) {
  nlohmann::json json = nlohmann::json::object();
  for (std::size_t kind = 0; kind < messages.size(); ++kind) {
    if (messages[kind].count == 0) continue;
    json[kKinds[kind]] = {{"count", messages[kind].count}, {"bytes", messages[kind].bytes}};
  }
  return json;
}

nlohmann::json as_json(const ScaleOptions& options, const ScaleResult& result) {
  const engine::EngineCounters& counters = result.counters;
  return {{"nodes", options.nodes},
          {"ranks_per_node", options.ranks_per_node},
          {"services", options.services},
          {"algorithm", name_of(options.algorithm)},
          {"form", options.v_form ? "v" : "regular"},
          {"ranks", result.ranks},
          {"local_ranks", result.local_ranks},
          {"peers", result.peers},
          {"pairs", result.pairs()},
          {"sent", as_json(counters.sent)},
          {"received", as_json(counters.received)},
          {"moves", counters.moves},
          {"moved_bytes", counters.moved_bytes},
          {"most_inbound", counters.most_inbound},
          {"most_kept_announcements", counters.most_kept_announcements},
          {"most_announcements_waiting", counters.most_announcements_waiting},
          {"most_frames", counters.most_frames},
          {"group_bytes", result.group_bytes},
          {"peak_bytes", result.peak_bytes},
          {"most_allocations", result.most_allocations},
          {"operation_bytes_per_pair", result.operation_bytes_per_pair()}};
}

void print_messages(const char* title, const Messages& messages) {
  for (std::size_t kind = 0; kind < messages.size(); ++kind) {
    if (messages[kind].count == 0) continue;
    fmt::print("  {:<9} {:<10} {:>12} messages {:>16} bytes\n", title, kKinds[kind], messages[kind].count,
               messages[kind].bytes);
  }
}

void print(const ScaleOptions& options, const ScaleResult& result) {
  const engine::EngineCounters& counters = result.counters;
  fmt::print("{} {}: {} nodes, {} ranks; one service process with {} ranks and {} peers\n", name_of(options.algorithm),
             options.v_form ? "v" : "regular", options.nodes, result.ranks, result.local_ranks, result.peers);
  print_messages("sent", counters.sent);
  print_messages("received", counters.received);
  fmt::print("  moves     {:>12}, {} bytes\n", counters.moves, counters.moved_bytes);
  fmt::print("  at most   {} messages not looked at, {} announcements kept for late ranks, {} waiting for a credit\n",
             counters.most_inbound, counters.most_kept_announcements, counters.most_announcements_waiting);
  fmt::print("            {} coroutines, {} allocations\n", counters.most_frames, result.most_allocations);
  fmt::print("  memory    {} bytes at most, {} of them the group's; {:.2f} bytes per pair for the operation\n",
             result.peak_bytes, result.group_bytes, result.operation_bytes_per_pair());
}

nlohmann::json as_json(const WholeJobOptions& options, const WholeJobResult& result) {
  return {{"nodes", options.nodes},
          {"ranks_per_node", options.ranks_per_node},
          {"services", options.services},
          {"collective", name_of(options.collective)},
          {"algorithm", name_of(options.algorithm)},
          {"mapping", options.mapping == Mapping::strided ? "strided" : "contiguous"},
          {"block_bytes", options.block_bytes},
          {"ranks", result.ranks},
          {"sent", as_json(result.sent)},
          {"moves", result.moves},
          {"wire_moves", result.wire_moves},
          {"wire_bytes", result.wire_bytes},
          {"most_bytes_from_a_node", result.most_bytes_from_a_node},
          {"bytes_from_the_root_node", result.bytes_from_the_root_node}};
}

void print(const WholeJobOptions& options, const WholeJobResult& result) {
  fmt::print("{} {}: {} nodes, {} ranks, {} service processes together\n", name_of(options.collective),
             name_of(options.algorithm), options.nodes, result.ranks, result.services);
  print_messages("sent", result.sent);
  fmt::print("  moves     {:>12}\n", result.moves);
  fmt::print("  wire      {:>12} moves, {} bytes, at most {} of them from one node\n", result.wire_moves,
             result.wire_bytes, result.most_bytes_from_a_node);
}

// For allgathers and broadcasts; nullopt: --collective is alltoall.
std::optional<Collective> whole_job_of(const std::string& collective, const std::string& form) {
  if (collective == "bcast") return Collective::ibcast;
  if (collective == "allgather") return form == "v" ? Collective::iallgatherv : Collective::iallgather;
  return std::nullopt;
}

template <class Options, class Counted>
int show(const Options& options, const Result<Counted>& counted, bool json) {
  if (!counted) return fail(counted.error());
  if (json) {
    fmt::print("{}\n", as_json(options, counted.value()).dump());
  } else {
    print(options, counted.value());
  }
  return 0;
}

}  // namespace

struct ScaleCommand::Arguments {
  ScaleOptions options;
  std::string collective = "alltoall";
  std::string algorithm;
  std::string form = "regular";
  std::string mapping = "contiguous";
  std::string arrival = "spread";
  bool json = false;
};

ScaleCommand::ScaleCommand(CLI::App& parent) : arguments_(std::make_unique<Arguments>()) {
  command_ = parent.add_subcommand(
      "scale",
      "Counts messages, moves and bytes in one operation of a large job: of one service process in an all-to-all, "
      "with its memory; of all together in an allgather or broadcast.");
  Arguments& arguments = *arguments_;
  ScaleOptions& options = arguments.options;
  command_->add_option("--nodes", options.nodes, "nodes of the job")->capture_default_str();
  command_->add_option("--ranks-per-node", options.ranks_per_node, "ranks on each")->capture_default_str();
  command_->add_option("--services", options.services, "service processes on each")->capture_default_str();
  command_->add_option("--collective", arguments.collective, "collective to count")
      ->check(CLI::IsMember({"alltoall", "allgather", "bcast"}))
      ->capture_default_str();
  command_->add_option("--algorithm", arguments.algorithm, "algorithm of the collective; default: its first")
      ->check(CLI::IsMember({"ring_pull", "scatter_dest", "flat", "node_pull", "hierarchical"}));
  command_->add_option("--mapping", arguments.mapping, "mapping of ranks to nodes; not for alltoall")
      ->check(CLI::IsMember({"contiguous", "strided"}))
      ->capture_default_str();
  command_->add_option("--form", arguments.form, "regular, or v: a count and an offset for every pair")
      ->check(CLI::IsMember({"regular", "v"}))
      ->capture_default_str();
  command_->add_option("--block-bytes", options.block_bytes, "bytes of a block; in the v-form their mean")
      ->capture_default_str();
  command_->add_option("--arrival", arguments.arrival, "when the ranks post, relative to the peers' announcements")
      ->check(CLI::IsMember({"early", "spread", "late"}))
      ->capture_default_str();
  command_->add_flag("--json", arguments.json, "one line of JSON");
}

ScaleCommand::~ScaleCommand() = default;

bool ScaleCommand::chosen() const {
  return command_->parsed();
}

int ScaleCommand::run() const {
  const std::optional<Collective> whole_job = whole_job_of(arguments_->collective, arguments_->form);
  return whole_job ? run_whole_job(*whole_job) : run_one_service();
}

int ScaleCommand::run_one_service() const {
  ScaleOptions options = arguments_->options;
  if (arguments_->mapping != "contiguous") return fail("--mapping: an all-to-all is the same for all mappings");
  options.v_form = arguments_->form == "v";
  const Collective collective = options.v_form ? Collective::ialltoallv : Collective::ialltoall;
  options.algorithm = algorithm_named(arguments_->algorithm).value_or(default_algorithm(collective));
  if (!has_algorithm(collective, options.algorithm)) {
    return fail(fmt::format("--algorithm: {} is none of alltoall", arguments_->algorithm));
  }
  options.arrival = arrival_named(arguments_->arrival);
  const Result<ScaleResult> result = count_scale(options);
  return show(options, result, arguments_->json);
}

int ScaleCommand::run_whole_job(Collective collective) const {
  WholeJobOptions options;
  options.nodes = arguments_->options.nodes;
  options.ranks_per_node = arguments_->options.ranks_per_node;
  options.services = arguments_->options.services;
  options.block_bytes = arguments_->options.block_bytes;
  options.collective = collective;
  options.algorithm = algorithm_named(arguments_->algorithm).value_or(default_algorithm(collective));
  options.mapping = arguments_->mapping == "strided" ? Mapping::strided : Mapping::contiguous;
  if (arguments_->arrival != "spread") return fail("--arrival: only for alltoall; otherwise all ranks post at once");
  if (collective == Collective::ibcast && arguments_->form == "v") return fail("--form: bcast has no v-form");
  const Result<WholeJobResult> result = count_whole_job(options);
  return show(options, result, arguments_->json);
}

}  // namespace outrigger::sim
