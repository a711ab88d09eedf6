#include "sim/scale_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/scale.hpp"

namespace outrigger::sim {
namespace {

constexpr std::array<const char*, engine::EngineCounters::kMessageKinds> kKinds = {"announce", "delivered", "release",
                                                                                   "finished", "refusal"};

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
  fmt::print("  memory    {} bytes at most, {} of them the group's; {:.2f} bytes a pair for the operation\n",
             result.peak_bytes, result.group_bytes, result.operation_bytes_per_pair());
}

}  // namespace

struct ScaleCommand::Arguments {
  ScaleOptions options;
  std::string algorithm = "ring_pull";
  std::string form = "regular";
  std::string arrival = "spread";
  bool json = false;
};

ScaleCommand::ScaleCommand(CLI::App& parent) : arguments_(std::make_unique<Arguments>()) {
  command_ = parent.add_subcommand(
      "scale", "Counts messages, bytes and memory of one service process in one operation of a large job.");
  Arguments& arguments = *arguments_;
  ScaleOptions& options = arguments.options;
  command_->add_option("--nodes", options.nodes, "nodes of the job")->capture_default_str();
  command_->add_option("--ranks-per-node", options.ranks_per_node, "ranks on each")->capture_default_str();
  command_->add_option("--services", options.services, "service processes on each")->capture_default_str();
  command_->add_option("--algorithm", arguments.algorithm, "which algorithm")
      ->check(CLI::IsMember({"ring_pull", "scatter_dest"}))
      ->capture_default_str();
  command_->add_option("--form", arguments.form, "regular, or v: a count and an offset for every pair")
      ->check(CLI::IsMember({"regular", "v"}))
      ->capture_default_str();
  command_->add_option("--block-bytes", options.block_bytes, "bytes of a block; in the v-form their mean")
      ->capture_default_str();
  command_->add_option("--arrival", arguments.arrival, "when the ranks post, seen against the peers' announcements")
      ->check(CLI::IsMember({"early", "spread", "late"}))
      ->capture_default_str();
  command_->add_flag("--json", arguments.json, "one line of JSON");
}

ScaleCommand::~ScaleCommand() = default;

bool ScaleCommand::chosen() const {
  return command_->parsed();
}

int ScaleCommand::run() const {
  ScaleOptions options = arguments_->options;
  options.algorithm = *algorithm_named(arguments_->algorithm);
  options.v_form = arguments_->form == "v";
  options.arrival = arrival_named(arguments_->arrival);
  const Result<ScaleResult> result = count_scale(options);
  if (!result) {
    fmt::print(stderr, "outrigger-sim: {}\n", result.error());
    return 1;
  }
  if (arguments_->json) {
    fmt::print("{}\n", as_json(options, result.value()).dump());
  } else {
    print(options, result.value());
  }
  return 0;
}

}  // namespace outrigger::sim
