#include <fmt/format.h>

#include <exception>

namespace outrigger::sim::model {
// Thrown if the parser's assertion fails, e.g. for `[` at the end of a line in version 3.3.
struct NoToml : std::exception {};
[[noreturn]] inline void refuse_file() {
  throw NoToml();
}
}  // namespace outrigger::sim::model

// The parser's assertions depend on the file's content, so they must end the parsing and not the process.
#define TOML_ASSERT(expression) ((expression) ? void() : ::outrigger::sim::model::refuse_file())
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sim/model/cluster.hpp"
#include "sim/model/quantity.hpp"

namespace outrigger::sim::model {
namespace {

constexpr std::size_t kMostFileBytes = std::size_t{1} << 20U;

// Problems found in one file.
class Problems {
 public:
  explicit Problems(std::string file) : file_(std::move(file)) {}
  void add(toml::source_index line, std::string_view text) {
    text_ += fmt::format("{}{}:{}: {}", text_.empty() ? "" : "\n", file_, line, text);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string file_;
  std::string text_;
};

// One table of the file. Each key is read once; keys that were not read are not allowed.
class Table {
 public:
  // `confidence`: bounds of its values; nullptr if there are none.
  Table(const toml::table& table, std::string prefix, Problems& problems, const toml::table* confidence = nullptr)
      : table_(table), prefix_(std::move(prefix)), problems_(problems), confidence_(confidence) {}

  void time_ns(const char* key, std::uint64_t& value) { quantity(key, value, parse_time_ns, Presence::needed); }
  void size_bytes(const char* key, std::uint64_t& value) { quantity(key, value, parse_bytes, Presence::needed); }
  void rate(const char* key, double& value) {
    if (quantity(key, value, parse_bytes_per_s, Presence::needed) && value <= 0)
      problem(key, "a rate must be more than 0");
  }
  void optional_rate(const char* key, double& value) {
    if (quantity(key, value, parse_bytes_per_s, Presence::optional) && value <= 0) {
      problem(key, "a rate must be more than 0");
    }
  }
  void optional_size_bytes(const char* key, std::uint64_t& value) {
    quantity(key, value, parse_bytes, Presence::optional);
  }
  void optional_time_ns(const char* key, std::uint64_t& value) {
    quantity(key, value, parse_time_ns, Presence::optional);
  }
  void count(const char* key, std::uint32_t& value, std::uint32_t most, bool needed = true) {
    const toml::node* node = find(key, needed ? Presence::needed : Presence::optional);
    if (node == nullptr) return;
    const std::optional<std::int64_t> number = node->value_exact<std::int64_t>();
    if (!number || *number < 1 || *number > most) return problem(key, fmt::format("a whole number from 1 to {}", most));
    value = static_cast<std::uint32_t>(*number);
  }
  void number(const char* key, double& value, double least, double most, bool needed) {
    const toml::node* node = find(key, needed ? Presence::needed : Presence::optional);
    if (node == nullptr) return;
    const std::optional<double> number = node->is_number() ? node->value<double>() : std::nullopt;
    if (!number || !std::isfinite(*number) || *number < least || *number > most) {
      return problem(key, fmt::format("a number from {} to {}", least, most));
    }
    value = *number;
  }
  void flag(const char* key, bool& value, bool needed = true) {
    const toml::node* node = find(key, needed ? Presence::needed : Presence::optional);
    if (node == nullptr) return;
    const std::optional<bool> read = node->value_exact<bool>();
    if (!read) return problem(key, "true or false");
    value = *read;
  }
  void text(const char* key, std::string& value) {
    if (const std::optional<std::string> read = string(key, Presence::needed)) value = *read;
  }
  template <class Enum, std::size_t kCount>
  void choice(const char* key, Enum& value, const std::array<std::pair<std::string_view, Enum>, kCount>& choices,
              bool needed = true) {
    const std::optional<std::string> read = string(key, needed ? Presence::needed : Presence::optional);
    if (!read) return;
    std::string allowed;
    for (const auto& [name, choice] : choices) {
      if (*read == name) {
        value = choice;
        return;
      }
      allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", name);
    }
    problem(key, fmt::format("'{}' is none of: {}", *read, allowed));
  }
  // nullptr if it is missing or not a table.
  const toml::table* table(const char* key, bool needed) {
    const toml::node* node = find(key, needed ? Presence::needed : Presence::optional);
    if (node == nullptr) return nullptr;
    if (node->as_table() == nullptr) problem(key, fmt::format("a table: [{}]", key));
    return node->as_table();
  }
  void problem(const char* key, std::string_view text) {
    const toml::node* node = table_.get(key);
    problems_.add(node == nullptr ? line() : node->source().begin.line, fmt::format("{}{}: {}", prefix_, key, text));
  }
  // Reports keys that were not read.
  void finish() {
    std::string allowed;
    for (const std::string_view key : asked_) allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", key);
    for (const auto& [key, node] : table_) {
      if (std::find(asked_.begin(), asked_.end(), key.str()) != asked_.end()) continue;
      problems_.add(node.source().begin.line,
                    fmt::format("{}{}: unknown key; allowed are {}", prefix_, key.str(), allowed));
    }
    if (confidence_ == nullptr) return;
    for (const auto& [key, node] : *confidence_) {
      if (std::find(bounded_.begin(), bounded_.end(), key.str()) != bounded_.end()) continue;
      problems_.add(node.source().begin.line,
                    fmt::format("confidence.{}{}: the file has no quantity of that name", prefix_, key.str()));
    }
  }

 private:
  enum class Presence : std::uint8_t { needed, optional };

  [[nodiscard]] toml::source_index line() const { return std::max<toml::source_index>(1, table_.source().begin.line); }
  const toml::node* find(const char* key, Presence presence) {
    asked_.emplace_back(key);
    const toml::node* node = table_.get(key);
    if (node == nullptr && presence == Presence::needed) problem(key, "is missing");
    return node;
  }
  std::optional<std::string> string(const char* key, Presence presence) {
    const toml::node* node = find(key, presence);
    if (node == nullptr) return std::nullopt;
    std::optional<std::string> read = node->value_exact<std::string>();
    if (!read) problem(key, "a text in quotes");
    return read;
  }
  template <class Value, class Parse>
  bool quantity(const char* key, Value& value, Parse parse, Presence presence) {
    const std::optional<std::string> read = string(key, presence);
    if (!read) return false;
    const Result<Value> parsed = parse(*read);
    if (!parsed) {
      problem(key, parsed.error());
      return false;
    }
    value = parsed.value();
    check_bounds(key, value, parse);
    return true;
  }
  // confidence.TABLE.KEY = ["4 us", "6 us"]: must contain the value.
  template <class Value, class Parse>
  void check_bounds(const char* key, const Value& value, Parse parse) {
    const toml::node* node = confidence_ == nullptr ? nullptr : confidence_->get(key);
    if (node == nullptr) return;
    bounded_.emplace_back(key);
    const auto wrong = [&](std::string_view text) {
      problems_.add(node->source().begin.line, fmt::format("confidence.{}{}: {}", prefix_, key, text));
    };
    std::vector<Value> bounds;
    const toml::array* pair = node->as_array();
    for (std::size_t i = 0; pair != nullptr && i < pair->size(); ++i) {
      const std::optional<std::string> text = (*pair)[i].value_exact<std::string>();
      if (!text) break;
      const Result<Value> bound = parse(*text);
      if (!bound) return wrong(bound.error());
      bounds.push_back(bound.value());
    }
    if (pair == nullptr || pair->size() != 2 || bounds.size() != 2) return wrong("two texts: [\"from\", \"to\"]");
    if (bounds[0] > value || value > bounds[1]) wrong("the value is not between them");
  }

  const toml::table& table_;
  std::string prefix_;
  Problems& problems_;
  const toml::table* confidence_;
  std::vector<std::string_view> asked_;
  std::vector<std::string_view> bounded_;  // those in confidence_
};

constexpr std::uint32_t kMostNodes = 1U << 16U;
constexpr std::uint32_t kMostCores = 1U << 10U;

void read_host(Table& table, HostModel& host) {
  table.count("cores", host.cores, kMostCores);
  table.rate("memory", host.memory_bytes_per_s);
  table.rate("copy", host.copy_bytes_per_s);
  table.rate("reduce", host.reduce_bytes_per_s);
  using WaitingName = std::pair<std::string_view, Waiting>;
  table.count("processors", host.processors, kMostCores, false);
  table.choice("waiting", host.waiting,
               std::array{WaitingName{"yield", Waiting::yields}, WaitingName{"spin", Waiting::spins}}, false);
  table.optional_time_ns("switch", host.switch_ns);
  table.optional_size_bytes("cache", host.cache_bytes);
  table.optional_rate("copy_missed", host.missed_bytes_per_s);
  if (host.processors % host.cores != 0) {
    table.problem("processors", fmt::format("nodes have {} of these cores each; write a multiple", host.cores));
  }
}

void read_mpi(Table& table, MpiModel& mpi) {
  using FamilyName = std::pair<std::string_view, MpiFamily>;
  table.choice("family", mpi.family,
               std::array{FamilyName{"mpich", MpiFamily::mpich}, FamilyName{"openmpi", MpiFamily::openmpi}}, false);
  table.time_ns("post", mpi.post_ns);
  table.time_ns("message", mpi.message_ns);
  table.size_bytes("eager", mpi.eager_bytes);
  table.optional_time_ns("rendezvous", mpi.rendezvous_ns);
  table.optional_rate("copy", mpi.copy_bytes_per_s);
  table.optional_rate("eager_copy", mpi.eager_bytes_per_s);
  table.optional_rate("copy_missed", mpi.missed_bytes_per_s);
  table.time_ns("thread_switch", mpi.thread_switch_ns);
}

void read_pcie(Table& table, PcieModel& pcie) {
  pcie.present = true;
  table.rate("rate", pcie.bytes_per_s);
  table.time_ns("latency", pcie.latency_ns);
}

void read_network(Table& table, NetworkModel& network, HostModel& host) {
  using KindName = std::pair<std::string_view, TopologyKind>;
  using WireName = std::pair<std::string_view, WireKind>;
  table.choice("topology", network.topology,
               std::array{KindName{"switch", TopologyKind::one_switch}, KindName{"fat_tree", TopologyKind::fat_tree},
                          KindName{"dragonfly", TopologyKind::dragonfly}});
  table.choice("wire", network.wire,
               std::array{WireName{"memory", WireKind::memory}, WireName{"processor", WireKind::processor}});
  if (network.wire == WireKind::processor) table.rate("socket", host.socket_bytes_per_s);
  table.rate("link", network.link_bytes_per_s);
  table.time_ns("message", network.message_ns);
  table.time_ns("latency", network.latency_ns);
  table.time_ns("hop", network.hop_ns);
  table.size_bytes("queue", network.queue_bytes);
  table.optional_size_bytes("burst", network.burst_bytes);
  table.size_bytes("chunk", network.chunk_bytes);
  if (network.chunk_bytes < 64) table.problem("chunk", "at least 64 B");
  if (network.topology == TopologyKind::fat_tree) {
    table.count("nodes_per_leaf", network.nodes_per_leaf, kMostNodes);
    table.number("taper", network.taper, 0.1, 100, true);
  }
  if (network.topology == TopologyKind::dragonfly) {
    table.count("nodes_per_router", network.nodes_per_leaf, kMostNodes);
    table.count("routers_per_group", network.routers_per_group, kMostNodes);
    table.rate("local_link", network.local_bytes_per_s);
    table.rate("global_link", network.global_bytes_per_s);
  }
}

void read_service(Table& table, ServiceModel& service) {
  using PlacementName = std::pair<std::string_view, Placement>;
  using ReachName = std::pair<std::string_view, ServiceReach>;
  table.choice("placement", service.placement,
               std::array{PlacementName{"host_core", Placement::host_core}, PlacementName{"dpu", Placement::dpu}});
  table.choice("reach", service.reach,
               std::array{ReachName{"direct", ServiceReach::direct}, ReachName{"staged", ServiceReach::staged}});
  table.count("per_node", service.per_node, kMostCores);
  table.time_ns("notice", service.notice_ns);
  table.time_ns("event", service.event_ns);
  table.time_ns("message", service.message_ns);
  table.time_ns("move", service.move_ns);
  table.time_ns("mark", service.mark_ns);
  table.rate("copy", service.copy_bytes_per_s);
  table.optional_rate("copy_missed", service.missed_bytes_per_s);
  table.rate("reduce", service.reduce_bytes_per_s);
  if (service.placement == Placement::dpu) {
    table.rate("memory", service.memory_bytes_per_s);
    table.time_ns("latency", service.dpu_latency_ns);
    service.ranks_copy = true;
    table.flag("ranks_copy", service.ranks_copy, false);
    table.count("copy_cores", service.copy_cores, kMostCores, false);
  } else {
    table.flag("own_core", service.own_core);
    table.flag("ranks_copy", service.ranks_copy);
    if (service.own_core) table.count("processors", service.processors, kMostCores, false);
  }
}

void read_noise(Table& table, NoiseModel& noise) {
  table.optional_time_ns("skew", noise.skew_ns);
  table.number("work", noise.work, 0, 10, false);
}

// Combinations of keys that are not allowed.
void check_together(const Cluster& cluster, Table& root) {
  const ServiceModel& service = cluster.service;
  if (service.placement == Placement::dpu && cluster.network.wire == WireKind::processor) {
    root.problem("service", "service processes on a DPU reach ranks by RDMA; network.wire has to be \"memory\"");
  }
  if (service.placement == Placement::host_core && service.reach == ServiceReach::staged) {
    root.problem("service",
                 "reach \"staged\" needs a DPU's memory; with placement \"host_core\" write reach = \"direct\"");
  }
  if (service.placement == Placement::dpu && !cluster.pcie.present) {
    root.problem("service", "a DPU is behind PCIe; add a table [pcie]");
  }
}

// The part of [confidence] for one table; nullptr if there is none.
const toml::table* confidence_of(const toml::table& file, const char* key) {
  const toml::table* all = file["confidence"].as_table();
  return all == nullptr ? nullptr : (*all)[key].as_table();
}

// Each key of its own names a table.
void read_confidence(Table& table, Problems& problems, const toml::table& file) {
  for (const char* key : {"host", "mpi", "pcie", "network", "service", "noise"}) {
    if (table.table(key, false) != nullptr && file[key].as_table() == nullptr) {
      problems.add(1, fmt::format("confidence.{}: the file has no table [{}]", key, key));
    }
  }
}

template <class Read>
void in_table(Table& root, const char* key, bool needed, Problems& problems, Read read,
              const toml::table* confidence = nullptr) {
  const toml::table* found = root.table(key, needed);
  if (found == nullptr) return;
  Table table(*found, fmt::format("{}.", key), problems, confidence);
  read(table);
  table.finish();
}

}  // namespace

Result<Cluster> parse_cluster(const std::string& text, const std::string& file_name) {
  // The parser has undefined behaviour for some other characters (3.3).
  const auto foreign = std::ranges::find_if(text, [](char letter) { return static_cast<unsigned char>(letter) > 127; });
  if (foreign != text.end()) {
    return Error{fmt::format("{}:{}: a character that is not ASCII; write us for microseconds", file_name,
                             1 + std::count(text.begin(), foreign, '\n'))};
  }
  toml::table parsed;
  // Without exceptions the parser continues after an error, into its own assertions (3.3).
  try {
    parsed = toml::parse(std::string_view(text), std::string_view(file_name));
  } catch (const toml::parse_error& error) {
    return Error{fmt::format("{}:{}: {}", file_name, error.source().begin.line, error.description())};
  } catch (const NoToml&) {
    return Error{fmt::format("{}: not valid TOML; look for a table or a key that does not end on its line", file_name)};
  }
  Problems problems(file_name);
  Table root(parsed, "", problems);
  Cluster cluster;
  root.text("name", cluster.name);
  root.count("nodes", cluster.nodes, kMostNodes);
  const auto in = [&](const char* key, bool needed, auto read) {
    in_table(root, key, needed, problems, read, confidence_of(parsed, key));
  };
  in("host", true, [&](Table& table) { read_host(table, cluster.host); });
  in("mpi", true, [&](Table& table) { read_mpi(table, cluster.mpi); });
  in("pcie", false, [&](Table& table) { read_pcie(table, cluster.pcie); });
  in("network", true, [&](Table& table) { read_network(table, cluster.network, cluster.host); });
  in("service", true, [&](Table& table) { read_service(table, cluster.service); });
  in("noise", false, [&](Table& table) { read_noise(table, cluster.noise); });
  in_table(root, "confidence", false, problems, [&](Table& table) { read_confidence(table, problems, parsed); });
  root.finish();
  if (problems.text().empty()) check_together(cluster, root);
  if (!problems.text().empty()) return Error{problems.text()};
  return cluster;
}

Result<Cluster> read_cluster(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{fmt::format("{}: cannot be read; name a cluster file, e.g. from clusters/", path)};
  std::string text(kMostFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (file.bad()) return Error{fmt::format("{}: cannot be read", path)};
  if (text.size() > kMostFileBytes) return Error{fmt::format("{}: too large for a cluster file (1 MiB)", path)};
  return parse_cluster(text, path);
}

}  // namespace outrigger::sim::model
