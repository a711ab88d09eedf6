#include "mpi/start/find_services.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "base/network_devices.hpp"
#include "client/start/node_layout.hpp"
#include "mpi/job/world_exchange.hpp"
#include "mpi/native/message.hpp"
#include "mpi/types/datatype.hpp"

namespace outrigger::mpi {
namespace {

// Each rank sends this to all others before the node leaders are known: its place, and its listener for the node's
// ranks. So the leader need not send its address, and a closed listener means that the leader has failed.
struct Introduction {
  client::RankOrigin origin;
  client::KeeperAddress keeper;  // empty: it has no listener
};

// The ranks of the job and this rank's listener, for one attempt.
struct Meeting {
  Result<client::KeeperListener> listener;
  std::vector<client::RankOrigin> origins;
  client::NodeLayout layout;
  client::KeeperAddress keeper;  // of this node
  std::string word;              // of the job
};

void take_place(Job& job, const client::NodeLayout& layout) {
  job.nodes = layout.nodes();
  job.node = layout.node_of_rank[job.world_rank];
  job.local_rank = layout.local_rank;
  job.local_size = layout.local_size;
  job.keepers_here = layout.keepers_here;
  job.number_here = layout.number_here;
  job.places.resize(job.world_size);
  for (std::uint32_t rank = 0; rank < job.world_size; ++rank) job.places[rank].node = layout.node_of_rank[rank];
}

// Name of the job's claims on cores, for its keepers: the end of the random name of rank 0's listener. All ranks know
// it, and it proves nothing.
std::string word_of(const client::KeeperAddress& first_listener) {
  constexpr std::size_t kLetters = 12;
  const std::string name(first_listener.name.data());
  return name.empty() ? "job" : name.substr(name.size() - std::min(name.size(), kLetters));
}

// Collective over the world.
Meeting meet(Job& job) {
  Result<client::KeeperListener> listener = client::open_keeper_listener();
  Introduction mine{client::RankOrigin::mine(), {}};
  if (listener) mine.keeper = listener.value().address;
  const std::vector<Introduction> all = gather_from_all(mine, job.world_size);
  std::vector<client::RankOrigin> origins;
  for (const Introduction& one : all) origins.push_back(one.origin);
  client::NodeLayout layout(origins, job.world_rank, job.config.pretend_nodes);
  take_place(job, layout);
  const client::KeeperAddress& keeper = all[layout.leaders[job.node]].keeper;
  return Meeting{std::move(listener), std::move(origins), std::move(layout), keeper, word_of(all[0].keeper)};
}

// Result of this rank's attempt.
struct Verdict {
  std::uint32_t refused = 0;
  std::uint32_t service = 0;
  std::uint32_t costs_a_core = 0;  // not 0: its service process shares a core with ranks
  Wire wire = Wire::memory;
};

// Service processes know the wire later, when they are connected.
Wire wire_of(const Job& job) {
  return job.config.transports == "tcp" || !has_rdma_devices() ? Wire::processor : Wire::memory;
}

Verdict verdict_on(const Job& job, const std::string& problem) {
  using copy::CoreShare;
  Verdict verdict{.refused = problem.empty() ? 0U : 1U, .wire = wire_of(job)};
  if (job.client == nullptr) return verdict;
  const WelcomeBody& welcome = job.client->welcome();
  verdict.service = welcome.sp;
  verdict.costs_a_core = welcome.core_share == CoreShare::none || welcome.core_share == CoreShare::shared ? 1 : 0;
  return verdict;
}

// The lowest rank's problem, known to all ranks; empty if there is none. Also gives all ranks the service process of
// each rank, the wire, and if a service process takes a rank's core. Collective over the world.
std::string first_problem(Job& job, const std::string& mine) {
  const std::vector<Verdict> all = gather_from_all(verdict_on(job, mine), job.world_size);
  const auto refused = std::ranges::find(all, 1U, &Verdict::refused);
  if (refused != all.end()) return text_from(static_cast<std::uint32_t>(refused - all.begin()), mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank) job.places[rank].service = all[rank].service;
  const bool may_move_memory = std::ranges::find(all, Wire::memory, &Verdict::wire) != all.end();
  job.wire = may_move_memory ? Wire::memory : Wire::processor;
  const auto costs_a_core = [](const Verdict& one) { return one.costs_a_core != 0; };
  job.dispatch.native_at_first = job.config.measured_choice && std::ranges::any_of(all, costs_a_core);
  return {};
}

std::string claims_of(const Job& job, const std::string& word) {
  const Config& config = job.config;
  return config.claims_scope + ":" + (config.claims_job.empty() ? word : config.claims_job);
}

client::KeeperOptions keeper_options(const Job& job, const Meeting& meeting, const std::string& dpu) {
  client::KeeperOptions options;
  options.daemon_path = job.config.daemon_path;
  options.world_size = job.world_size;
  options.local_size = job.local_size;
  options.nodes = job.nodes;
  options.keepers_here = job.keepers_here;
  options.number_here = job.number_here;
  options.services = job.config.services;
  options.service_cpus = job.config.service_cpus;
  options.claims = claims_of(job, meeting.word);
  options.reach_allowed = job.config.memory.reach;
  options.init_timeout_ms = job.config.init_timeout_ms;
  options.dpu = dpu;
  options.copy_cpus = job.config.copy_cpus;
  options.dpu_secret = job.config.dpu_secret;
  return options;
}

client::AttachOptions attach_options(const Job& job, const client::KeeperAddress& keeper, bool on_dpu) {
  client::AttachOptions options;
  options.init_timeout_ms = job.config.init_timeout_ms;
  options.keeper = keeper;
  options.world_rank = WorldRank{job.world_rank};
  options.world_size = job.world_size;
  options.local_rank = job.local_rank;
  options.local_size = job.local_size;
  options.dpu = on_dpu;
  options.wait_copies = job.config.memory.wait_copies;
  options.huge_pages = job.config.memory.huge_pages;
  options.transports = job.config.transports;
  if ((job.config.memory.reach & kReachCopier) != 0) options.spare_cores = {job.config.copy_cpus, job.local_size};
  options.offer_xpmem = (job.config.memory.reach & kReachXpmem) != 0;
  options.offer_exports = (job.config.memory.reach & kReachAlias) != 0;
  return options;
}

Result<std::string> dpu_of_this_node(const Job& job) {
  std::array<char, 256> host{};
  (void)gethostname(host.data(), host.size() - 1);
  return dpu_for(job.config.dpus, host.data(), job.number_here);
}

// The leader passes its listener to a keeper; all others close theirs.
Status open_up(const Job& job, Meeting& meeting, bool on_dpu) {
  Result<client::KeeperListener> listener = std::exchange(meeting.listener, Error{"the listener has been used"});
  const Result<std::string> dpu = on_dpu ? dpu_of_this_node(job) : Result<std::string>(std::string());
  if (!dpu) return Error{dpu.error()};
  if (job.local_rank != 0) return Done{};
  if (!listener) return Error{listener.error()};
  return client::start_keeper(keeper_options(job, meeting, dpu.value()), std::move(listener).value());
}

// Memory that service processes map takes descriptors, here and in the keeper, whose limit is this process's hard one.
// Where they reach private memory, staging does without. Empty: there is some.
std::string why_no_staging(client::RankEndpoint& client) {
  constexpr rlim_t kFew = 256;
  constexpr rlim_t kMany = 4096;
  rlimit limit{};
  if (client.reached_by(kReachCma | kReachRdma) || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  if (limit.rlim_max >= kMany) return {};
  void* memory = limit.rlim_max < kFew ? nullptr : client.staging().allocate(1);
  if (memory == nullptr) {
    return "no file descriptors left for shared memory, which service processes need here (limit " +
           std::to_string(limit.rlim_max) + "); raise ulimit -n";
  }
  client.staging().release(memory);
  return {};
}

// Empty: this rank has everything that it needs.
std::string set_up(Job& job, Meeting& meeting, bool on_dpu) {
  if (const Status opened = open_up(job, meeting, on_dpu); !opened) return opened.error();
  Result<client::AttachedEndpoint> attached = client::attach(attach_options(job, meeting.keeper, on_dpu));
  if (!attached) return attached.error().empty() ? "the service process refused the rank" : attached.error();
  job.client = std::move(attached.value());
  if (job.type_keyval == MPI_KEYVAL_INVALID && !register_datatypes(job))
    return "the MPI could not create a type attribute";
  return why_no_staging(*job.client);
}

// Connects the service processes of all nodes. Empty: done, as far as this rank knows. Collective over the nodes'
// leaders.
std::string introduce_nodes(const Job& job, const Meeting& meeting) {
  if (job.nodes == 1 || job.local_rank != 0) return {};
  const std::chrono::milliseconds patience(job.config.init_timeout_ms);
  const Result<std::vector<std::byte>> descriptor = job.client->control().node_descriptor(patience);
  // Collective: also without a descriptor.
  const std::vector<std::byte> descriptors =
      gather_among(meeting.layout.leaders, job.node, descriptor ? descriptor.value() : std::vector<std::byte>{});
  if (!descriptor) return descriptor.error();
  if (descriptors.empty()) return "a node has no descriptor";
  const Status taken = job.client->control().take_job_map(descriptors, job.node, patience);
  return taken ? std::string() : taken.error();
}

// Ranks that share their cores yield sooner while they wait. The keeper knows if service processes have their own cores
// (copy/core_share.hpp), but not if ranks have: several nodes of a job, each with a keeper, may be on one machine.
void share_cores(Job& job, const Meeting& meeting) {
  constexpr double kSlack = 0.01;  // of sums of fractions
  std::uint32_t homeless = 0;
  if (job.client != nullptr) {
    const WelcomeBody& welcome = job.client->welcome();
    homeless = welcome.core_share == copy::CoreShare::own ? 0 : welcome.sp_count;
  }
  const client::CoreLoad load = client::load_of_cores(meeting.origins, meeting.layout, job.world_rank, homeless);
  using copy::RankCores;
  const double room = load.cores + kSlack;
  job.cores = load.ranks > room                   ? RankCores::shared_with_ranks
              : load.ranks + load.services > room ? RankCores::shared_with_services
                                                  : RankCores::own;
}

// Empty: all ranks are served. Collective over the world.
std::string try_services(Job& job, bool on_dpu) {
  Meeting meeting = meet(job);
  std::string problem = first_problem(job, set_up(job, meeting, on_dpu));
  if (problem.empty() && job.nodes > 1) problem = first_problem(job, introduce_nodes(job, meeting));
  if (problem.empty()) {
    job.on_dpu = on_dpu;
  } else {
    job.client.reset();
  }
  share_cores(job, meeting);
  return problem;
}

}  // namespace

void find_places(Job& job) {
  share_cores(job, meet(job));
}

std::string find_services(Job& job) {
  if (!job.config.dpus.empty()) {
    const std::string problem = try_services(job, true);
    if (problem.empty()) return {};
    if (job.world_rank == 0) print("the DPUs are not used: %s", problem.c_str());
  }
  std::string problem = try_services(job, false);
  if (!problem.empty() || job.config.dpus.empty()) return problem;
  const bool free = job.client->welcome().core_share == copy::CoreShare::own;
  problem = first_problem(job, free ? "" : "no core is free for service processes");
  if (!problem.empty()) job.client.reset();
  return problem;
}

}  // namespace outrigger::mpi
