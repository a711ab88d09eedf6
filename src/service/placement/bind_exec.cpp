#include "service/placement/bind_exec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string_view>

#include "protocol/options/cpu_list.hpp"
#include "protocol/options/settings.hpp"
#include "service/placement/cores.hpp"
#include "service/placement/launch.hpp"
#include "service/placement/needed_libraries.hpp"
#include "service/placement/placement.hpp"

namespace outrigger::service {
namespace {

using setting::kServiceCpus;

std::optional<std::uint32_t> number_in(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

Result<std::uint32_t> number_of_variable(const char* name) {
  const std::string text = variable(name);
  if (text.empty()) return Error{std::string(name) + " is not set by the launcher"};
  const std::optional<std::uint32_t> number = number_in(text);
  if (!number) return Error{fmt::format("{}={} is not a number", name, text)};
  return *number;
}

Result<LauncherRank> pair_of(const Result<std::uint32_t>& rank, const Result<std::uint32_t>& size) {
  if (!rank) return Error{rank.error()};
  if (!size) return Error{size.error()};
  if (rank.value() >= size.value()) {
    return Error{fmt::format("the launcher's variables are invalid: local rank {} of {}", rank.value(), size.value())};
  }
  return LauncherRank{rank.value(), size.value()};
}

Result<std::uint32_t> tasks_here() {
  const Result<std::uint32_t> node = number_of_variable("SLURM_NODEID");
  if (!node) return Error{node.error()};
  std::string tasks = variable("SLURM_STEP_TASKS_PER_NODE");
  if (tasks.empty()) tasks = variable("SLURM_TASKS_PER_NODE");
  return tasks_of_node(tasks, node.value());
}

Status add_cpus(const char* option, const std::string& text, CpuMask& mask) {
  const Result<std::vector<int>> cpus = parse_cpu_list(text);
  if (!cpus) return Error{fmt::format("{}: {}", option, cpus.error())};
  for (const int cpu : cpus.value()) mask.set(static_cast<std::size_t>(cpu));
  return Done{};
}

Result<OtherJobs> others_of(const BindOptions& binding) {
  OtherJobs others;
  if (const Status added = add_cpus("--others-ranks", binding.others_ranks, others.ranks); !added) {
    return Error{added.error()};
  }
  if (const Status added = add_cpus("--others-services", binding.others_services, others.services); !added) {
    return Error{added.error()};
  }
  return others;
}

// Service processes and simulated nodes: the command line wins over the environment.
Result<NodeRequest> request_of(const BindOptions& binding, std::uint32_t ranks) {
  Result<BindRequest> parsed = parse_bind(binding.bind);
  if (!parsed) return Error{parsed.error()};
  Result<std::vector<int>> cpus = parse_cpu_list(variable(kServiceCpus));
  if (!cpus) return Error{std::string(kServiceCpus) + ": " + cpus.error()};
  Result<std::vector<int>> copy_cpus = parse_cpu_list(binding.copy_cpus);
  if (!copy_cpus) return Error{"--copy-cpus: " + copy_cpus.error()};
  const Result<KeptCores> keep = parse_kept_cores(binding.keep);
  if (!keep) return Error{keep.error()};
  Result<OtherJobs> others = others_of(binding);
  if (!others) return Error{others.error()};
  NodeRequest request;
  request.others = std::move(others).value();
  request.bind = std::move(parsed).value();
  request.ranks = ranks;
  request.services = binding.services;
  request.keep = keep.value();
  request.service_cpus = std::move(cpus).value();
  request.copy_cpus = std::move(copy_cpus).value();
  if (!variable(setting::kPretendNodes).empty()) {
    const Result<std::uint32_t> nodes = number_of_variable(setting::kPretendNodes);
    if (!nodes) return Error{nodes.error()};
    request.nodes = nodes.value();
  }
  return request;
}

void set_unless_set(const char* name, const std::string& value) {
  (void)::setenv(name, value.c_str(), 0);
}

std::string joined(const std::vector<int>& cpus) {
  std::string text;
  for (const int cpu : cpus) text += fmt::format("{}{}", text.empty() ? "" : ",", cpu);
  return text;
}

// The rank's place and the settings that follow from it. They are set here, where the node is known.
void set_environment(BindPolicy policy, const NodePlacement& placement, const RankPlace& rank) {
  const std::vector<int>& cpus = placement.service_cpus;
  if (!cpus.empty()) set_unless_set(kServiceCpus, joined(cpus));
  // A waiting rank must yield to one that computes on the same core.
  if (rank.shared && variable(setting::kWait) != "native") {
    set_unless_set("OMPI_MCA_mpi_yield_when_idle", "1");
    set_unless_set("I_MPI_THREAD_YIELD", "3");               // Intel MPI sleeps
    set_unless_set("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1");  // MPICH 5
    set_unless_set("MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT", "10");
  }
  if (policy == BindPolicy::hybrid) set_unless_set("OMP_NUM_THREADS", std::to_string(rank.shared ? 1 : rank.cores));
}

// A failed binding must not fail the job. All ranks of a node fail alike, so one of them prints the reason.
Status go_on_unbound(const LauncherRank& local, const std::string& reason) {
  if (local.rank == 0) fmt::print(stderr, "outrigger: the ranks of this node are not bound: {}\n", reason);
  return Done{};
}

Status bind_here(const BindExecOptions& options) {
  if (options.binding.bind == "none") return Done{};
  const Result<LauncherRank> local = local_rank_of_environment();
  if (!local) return Error{local.error()};
  const Result<NodeRequest> request = request_of(options.binding, local.value().size);
  if (!request) return Error{request.error()};
  const Result<Topology> topology = read_topology();
  if (!topology) return go_on_unbound(local.value(), topology.error());
  const Topology here = within_affinity(topology.value());
  const Result<NodePlacement> placement = place_node(request.value(), here);
  if (!placement) return Error{placement.error()};
  const RankPlace& rank = placement.value().ranks[local.value().rank];
  if (!rank.cpus.empty()) {
    if (const Status bound = bind_process_to_cpus(rank.cpus); !bound)
      return go_on_unbound(local.value(), bound.error());
  }
  set_environment(request.value().bind.policy, placement.value(), rank);
  return Done{};
}

bool is_mpi(const std::string& library) {
  return library.starts_with("libmpi");
}

void set_preload(const std::string& ours, const std::string& program) {
  const std::vector<std::string> needed = needed_libraries(program_on_path(program));
  (void)::setenv("LD_PRELOAD", preload_list(ours, variable("LD_PRELOAD"), needed).c_str(), 1);
  if (std::any_of(needed.begin(), needed.end(), is_mpi)) return;
  // For a shell or another program that starts the MPI program: its libraries are not known here. The address sanitizer
  // only insists on being first. Later options in the list win.
  const std::string options = variable("ASAN_OPTIONS");
  (void)::setenv("ASAN_OPTIONS", ("verify_asan_link_order=0" + (options.empty() ? "" : ":" + options)).c_str(), 1);
}

// For each core that another job has, the process with the claim.
nlohmann::json as_json(const OtherJobs& others, const Topology& topology) {
  nlohmann::json taken = nlohmann::json::array();
  for (const Core& core : topology.cores) {
    const bool services = !untouched(core.cpus, others.services);
    if (!services && untouched(core.cpus, others.ranks)) continue;
    taken.push_back(
        {{"cpu", core.cpus.front()}, {"by", services ? "service" : "ranks"}, {"pid", others.one_at(core.cpus)}});
  }
  return taken;
}

nlohmann::json as_json(const NodePlacement& placement, const OtherJobs& others, const Topology& topology) {
  nlohmann::json cores = nlohmann::json::array();
  for (const Core& core : topology.cores) cores.push_back({{"cpus", core.cpus}, {"domain", core.domain}});
  nlohmann::json ranks = nlohmann::json::array();
  for (const RankPlace& rank : placement.ranks) {
    ranks.push_back({{"cpus", rank.cpus},
                     {"cores", rank.cores},
                     {"shared", rank.shared},
                     {"service", rank.service},
                     {"node", rank.node}});
  }
  nlohmann::json services = nlohmann::json::array();
  for (const ServicePlace& service : placement.services) {
    services.push_back({{"cpu", service.cpu}, {"core_is_free", service.core_share == copy::CoreShare::own}});
  }
  return {{"version", 1},
          {"cores", cores},
          {"ranks", ranks},
          {"services", services},
          {"other_jobs", as_json(others, topology)},
          {"service_cpus", placement.service_cpus}};
}

}  // namespace

Result<std::uint32_t> tasks_of_node(const std::string& tasks_per_node, std::uint32_t node) {
  std::stringstream stream(tasks_per_node);
  std::string item;
  std::uint32_t first = 0;
  while (std::getline(stream, item, ',')) {
    const std::size_t open = item.find("(x");
    const std::optional<std::uint32_t> tasks = number_in(std::string_view(item).substr(0, open));
    std::optional<std::uint32_t> times = 1;
    if (open != std::string::npos) {
      times = item.back() == ')' ? number_in(std::string_view(item).substr(open + 2, item.size() - open - 3))
                                 : std::nullopt;
    }
    if (!tasks || !times) break;
    if (node - first < *times) return *tasks;
    first += *times;
  }
  return Error{fmt::format("SLURM_TASKS_PER_NODE={} has no number of tasks for node {}", tasks_per_node, node)};
}

Result<LauncherRank> local_rank_of_environment() {
  if (!variable("OMPI_COMM_WORLD_LOCAL_RANK").empty()) {
    return pair_of(number_of_variable("OMPI_COMM_WORLD_LOCAL_RANK"), number_of_variable("OMPI_COMM_WORLD_LOCAL_SIZE"));
  }
  if (!variable("MPI_LOCALRANKID").empty()) {
    return pair_of(number_of_variable("MPI_LOCALRANKID"), number_of_variable("MPI_LOCALNRANKS"));
  }
  if (!variable("SLURM_LOCALID").empty()) return pair_of(number_of_variable("SLURM_LOCALID"), tasks_here());
  return Error{
      "the launcher gives no local rank (OMPI_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID or SLURM_LOCALID); start this "
      "under mpirun, mpiexec or srun"};
}

Error bind_and_exec(const BindExecOptions& options) {
  if (options.command.empty()) return Error{"no program to run; write it after --"};
  if (const Status bound = bind_here(options); !bound) return Error{bound.error()};
  if (!options.preload.empty()) set_preload(options.preload, options.command.front());
  return become(options.command);
}

Result<std::string> describe_placement(const PlaceOptions& options, const Topology& topology) {
  Result<NodeRequest> request = request_of(options.binding, options.ranks);
  if (!request) return Error{request.error()};
  NodeRequest wanted = std::move(request).value();
  wanted.nodes = options.pretend_nodes;
  if (options.heed_others) {
    const Claimant me = claimant_of_environment();
    wanted.others = other_jobs(read_claims(me.scope), me.job);
  }
  const Topology here = within_affinity(topology);
  const Result<NodePlacement> placement = place_node(wanted, here);
  if (!placement) return Error{placement.error()};
  return as_json(placement.value(), wanted.others, here).dump();
}

}  // namespace outrigger::service
