// outriggerd: keeper, service process, and small tools around them.
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "group/service/serve_group.hpp"
#include "protocol/options/cpu_list.hpp"
#include "protocol/options/reach.hpp"
#include "service/dpu/daemon/dpu_daemon.hpp"
#include "service/dpu/daemon/dpu_probe.hpp"
#include "service/keeper/keep.hpp"
#include "service/loop/faults.hpp"
#include "service/loop/service.hpp"
#include "service/notices/log.hpp"
#include "service/placement/bind_exec.hpp"
#include "service/placement/cores.hpp"
#include "service/placement/launch.hpp"
#include "service/tools/info.hpp"
#include "service/tools/tables.hpp"

namespace {

using namespace outrigger::service;

constexpr int kControlFd = 3;
constexpr int kUsageError = 2;
constexpr int kCoresNotKnown = 3;

int complain(const std::string& text) {
  std::cerr << "outriggerd: " << text << '\n';
  return kUsageError;
}

struct KeepArguments {
  KeeperConfig config;
  std::string service_cpus;
  std::string copy_cpus;
  std::string claims;
  std::string reach = outrigger::reach_list(outrigger::kReachAll & ~outrigger::kReachXpmem);
};

void add_keep_options(CLI::App& command, KeepArguments& arguments) {
  KeeperConfig& config = arguments.config;
  const CLI::Range ranks(1U, outrigger::kMaxLocalRanks);
  command.add_option("--world-size", config.world_size, "Ranks of the job")->required()->check(CLI::PositiveNumber);
  command.add_option("--local-size", config.local_size, "Ranks of this node")->required()->check(ranks);
  command.add_option("--nodes", config.nodes, "Nodes of the job")->check(CLI::PositiveNumber);
  command.add_option("--keepers-here", config.keepers_here, "Simulated nodes on this machine")
      ->check(CLI::PositiveNumber);
  command.add_option("--number-here", config.number_here, "Index of this node among them, from 0");
  command.add_option("--services", config.services, "Service processes to start; 0: automatic")
      ->check(CLI::Range(0U, outrigger::kMaxServices));
  command.add_option("--service-cpus", arguments.service_cpus,
                     "Cpus to pin them to, e.g. 6,7; empty: cores free of ranks");
  command.add_option("--claims", arguments.claims, "SCOPE:JOB for claiming cores; :JOB: none are claimed");
  command.add_option("--reach", arguments.reach, "Allowed ways to reach ranks' memory, or none");
  command.add_option("--init-timeout-ms", config.init_timeout_ms,
                     "Limit for all ranks to appear and the service processes to be ready");
  command.add_option("--dpu", config.dpu, "HOST:PORT of the `outriggerd dpu` that runs this node's service processes");
  command.add_option("--copy-cpus", arguments.copy_cpus, "Cpus of ranks' copiers beside it, e.g. 6,7");
  command.add_option("--leader-pid", config.leader_pid, "The rank that started the keeper");
}

int run_keep(KeepArguments arguments) {
  outrigger::Result<std::vector<int>> cpus = outrigger::parse_cpu_list(arguments.service_cpus);
  if (!cpus) return complain(cpus.error());
  outrigger::Result<std::vector<int>> copy_cpus = outrigger::parse_cpu_list(arguments.copy_cpus);
  if (!copy_cpus) return complain("--copy-cpus: " + copy_cpus.error());
  outrigger::Result<std::uint32_t> reach = outrigger::parse_reach_list(arguments.reach);
  if (!reach) return complain(reach.error());
  outrigger::Result<Claimant> claims = parse_claimant(arguments.claims);
  if (!claims) return complain("--claims: " + claims.error());
  arguments.config.claims = std::move(claims).value();
  arguments.config.service_cpus = std::move(cpus).value();
  arguments.config.copy_cpus = std::move(copy_cpus).value();
  arguments.config.reach_allowed = reach.value();
  return keep(std::move(arguments.config));
}

void add_bind_options(CLI::App& command, BindOptions& binding) {
  command
      .add_option("--bind", binding.bind,
                  "bunch, scatter, hybrid, none, or cpus: 0,2,4-7 (one per rank), 0-1:2-3 (one list per rank)")
      ->capture_default_str();
  command.add_option("--services", binding.services, "Service processes of the node; 0: automatic")
      ->check(CLI::Range(0U, outrigger::kMaxServices));
  command.add_option("--copy-cpus", binding.copy_cpus, "Cpus of ranks' copiers, with service processes on a DPU");
  command.add_option("--others-ranks", binding.others_ranks, "Cpus of other jobs' ranks, e.g. 0-3");
  command.add_option("--others-services", binding.others_services, "Cpus of other jobs' service processes");
  command
      .add_option(
          "--keep", binding.keep,
          "Cores kept free of ranks: wanted (one per service process), spare (that no rank needs), none (service "
          "processes are on a DPU)")
      ->capture_default_str();
}

int run_place(const PlaceOptions& options) {
  const outrigger::Result<Topology> topology = read_topology();
  if (!topology) {
    (void)complain(topology.error());
    return kCoresNotKnown;
  }
  const outrigger::Result<std::string> placement = describe_placement(options, topology.value());
  if (!placement) return complain(placement.error());
  std::cout << placement.value() << '\n';
  return 0;
}

struct SignalLists {
  std::string unblocked;
  std::string ignored;
};

int run_launch(LaunchOptions options, const SignalLists& signals) {
  outrigger::Result<std::vector<int>> unblocked = outrigger::parse_cpu_list(signals.unblocked);
  if (!unblocked) return complain("--unblock: " + unblocked.error());
  outrigger::Result<std::vector<int>> ignored = outrigger::parse_cpu_list(signals.ignored);
  if (!ignored) return complain("--ignore: " + ignored.error());
  options.unblocked = std::move(unblocked).value();
  options.ignored = std::move(ignored).value();
  return complain(launch(options).text);
}

int run_serve() {
  (void)::signal(SIGPIPE, SIG_IGN);
  int type = 0;
  socklen_t bytes = sizeof(type);
  if (::getsockopt(kControlFd, SOL_SOCKET, SO_TYPE, &type, &bytes) != 0 || type != SOCK_SEQPACKET) {
    return complain("descriptor 3 is not a control socket; the keeper starts service processes");
  }
  start_log("service");
  arrange_faults();
  Service service{outrigger::UniqueFd(kControlFd)};
  const int status = service.run();
  spdlog::shutdown();
  // Skips destructors: UCX 1.13 aborts when it is closed while a connection is being made.
  ::_exit(status);
}

struct GroupArguments {
  std::string cpus;
  std::vector<int> pids;
  std::vector<std::uint32_t> first_of;
  std::uint32_t rank = 0;
};

int run_group(const GroupArguments& arguments) {
  outrigger::Result<std::vector<int>> cpus = outrigger::parse_cpu_list(arguments.cpus);
  if (!cpus) return complain(cpus.error());
  return outrigger::group::serve_group({.pids = arguments.pids,
                                        .cpus = std::move(cpus).value(),
                                        .first_of = arguments.first_of,
                                        .rank = arguments.rank});
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Service processes of Outrigger. Programs start them automatically; info and exec are for users."};
  app.set_version_flag("--version", "outriggerd " OUTRIGGER_VERSION);
  app.require_subcommand(1);

  KeepArguments keep_arguments;
  CLI::App* keep_command = app.add_subcommand("keep", "Keep a node's service processes (started by a rank)");
  add_keep_options(*keep_command, keep_arguments);

  CLI::App* serve_command = app.add_subcommand("serve", "Run a service process (started by the keeper)");

  GroupArguments group_arguments;
  CLI::App* group_command =
      app.add_subcommand("group", "Run the service process of a group without MPI (started by a rank)");
  group_command->add_option("--cpus", group_arguments.cpus, "Cpus to pin it to, e.g. 6,7")->required();
  group_command->add_option("--pids", group_arguments.pids, "Processes of the node's members, in the order of ranks")
      ->required()
      ->delimiter(',')
      ->expected(1, 64);
  group_command
      ->add_option("--first-of", group_arguments.first_of,
                   "For each member of a group on several nodes, the first member of its node")
      ->delimiter(',')
      ->expected(1, 64);
  group_command->add_option("--rank", group_arguments.rank, "The first member of this node");

  bool json = false;
  CLI::App* info_command = app.add_subcommand("info", "Print what this machine offers");
  info_command->add_flag("--json", json, "The only format; accepted for clarity");

  CLI::App* tables_command = app.add_subcommand("tables", "Print settings and collectives as JSON (for the launcher)");

  std::vector<std::string> rules;
  CLI::App* rules_command =
      app.add_subcommand("rules", "Check rules of OUTRIGGER_ALGORITHM and print the errors as JSON");
  rules_command->add_option("rules", rules, "Rules, one per argument")->required();

  BindExecOptions exec_options;
  CLI::App* exec_command = app.add_subcommand("exec", "Bind to this local rank's cores and run a program");
  add_bind_options(*exec_command, exec_options.binding);
  exec_command->add_option("--preload", exec_options.preload, "Library to prepend to LD_PRELOAD");
  exec_command->add_option("command", exec_options.command, "Program and arguments, after --")->required();

  LaunchOptions launch_options;
  SignalLists signals;
  CLI::App* launch_command =
      app.add_subcommand("launch", "Run an MPI's launcher that ends with the command `outrigger`");
  launch_command->add_option("--parent", launch_options.parent, "The process that starts this")->required();
  launch_command->add_option("--unblock", signals.unblocked, "Signals to unblock, separated by commas");
  launch_command->add_option("--ignore", signals.ignored, "Signals to ignore, separated by commas");
  launch_command->add_option("command", launch_options.command, "Launcher and arguments, after --")->required();

  PlaceOptions place_options;
  CLI::App* place_command = app.add_subcommand("place", "Print where exec would put the ranks of this node, as JSON");
  add_bind_options(*place_command, place_options.binding);
  place_command->add_option("--ranks", place_options.ranks, "Ranks of this node")
      ->required()
      ->check(CLI::Range(1U, outrigger::kMaxLocalRanks));
  place_command->add_flag("--heed-others", place_options.heed_others, "Avoid cores that other jobs use now");
  place_command->add_option("--pretend-nodes", place_options.pretend_nodes,
                            "Simulated nodes that this one is split into");

  DpuDaemonOptions dpu_options;
  CLI::App* dpu_command =
      app.add_subcommand("dpu", "Run a host's service processes on this DPU (started by the launcher)");
  dpu_command->add_option("--services", dpu_options.services, "Service processes; 0: one for every eight ranks")
      ->check(CLI::Range(0U, outrigger::kMaxServices));
  dpu_command->add_option("--bind", dpu_options.bind, "Cpus to pin them to, e.g. 0-3; empty: none");

  std::string probed;
  CLI::App* probe_command = app.add_subcommand("dpu-probe", "Print how a DPU reaches this host's memory, as JSON");
  probe_command->add_option("address", probed, "HOST:PORT of its `outriggerd dpu`")->required();

  CLI11_PARSE(app, argc, argv);
  if (probe_command->parsed()) return run_dpu_probe(probed);
  if (dpu_command->parsed()) return run_dpu_daemon(dpu_options);
  if (keep_command->parsed()) return run_keep(std::move(keep_arguments));
  if (serve_command->parsed()) return run_serve();
  if (group_command->parsed()) return run_group(group_arguments);
  if (exec_command->parsed()) return complain(bind_and_exec(exec_options).text);
  if (launch_command->parsed()) return run_launch(std::move(launch_options), signals);
  if (place_command->parsed()) return run_place(place_options);
  if (tables_command->parsed()) {
    std::cout << describe_tables() << '\n';
    return 0;
  }
  if (rules_command->parsed()) {
    std::cout << check_rules(rules) << '\n';
    return 0;
  }
  std::cout << describe_machine() << '\n';
  return 0;
}
