#include "mpi/start/job.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "mpi/collectives/operation.hpp"
#include "mpi/communicators/comm_state.hpp"
#include "mpi/memory/shared_heap.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/message.hpp"
#include "mpi/native/real.hpp"
#include "mpi/report/report.hpp"
#include "mpi/start/agreement.hpp"
#include "mpi/start/shared_cores.hpp"
#include "mpi/types/datatype.hpp"

namespace outrigger::mpi {
namespace {

using Text = std::array<char, 256>;

Text text_of(const std::string& words) {
  Text text{};
  std::snprintf(text.data(), text.size(), "%s", words.c_str());
  return text;
}

void set_world(Job& job) {
  int rank = 0;
  int size = 0;
  real().Comm_rank(constants().comm_world, &rank);
  real().Comm_size(constants().comm_world, &size);
  job.world_rank = static_cast<std::uint32_t>(rank);
  job.world_size = static_cast<std::uint32_t>(size);
}

std::uint32_t rank_in(MPI_Comm comm) {
  int rank = 0;
  real().Comm_rank(comm, &rank);
  return static_cast<std::uint32_t>(rank);
}

std::uint32_t size_of(MPI_Comm comm) {
  int size = 0;
  real().Comm_size(comm, &size);
  return static_cast<std::uint32_t>(size);
}

// Splits the ranks of this machine into as many nodes as the user wants it to pretend to be.
void pretend_nodes(Job& job) {
  job.keepers_here = std::min(job.config.pretend_nodes, job.local_size);
  if (job.keepers_here == 1) return;
  job.number_here = static_cast<std::uint32_t>(std::uint64_t{job.local_rank} * job.keepers_here / job.local_size);
  MPI_Comm part{};
  real().Comm_split(job.node_comm, static_cast<int>(job.number_here), 0, &part);
  real().Comm_free(&job.node_comm);
  job.node_comm = part;
  job.local_rank = rank_in(part);
  job.local_size = size_of(part);
}

void number_nodes(Job& job) {
  real().Comm_split(job.internal_comm, job.local_rank == 0 ? 0 : MPI_UNDEFINED, 0, &job.node_leaders);
  std::array<std::uint32_t, 2> numbers{};
  if (job.local_rank == 0) numbers = {size_of(job.node_leaders), rank_in(job.node_leaders)};
  real().Bcast(numbers.data(), static_cast<int>(sizeof numbers), constants().byte, 0, job.node_comm);
  job.nodes = numbers[0];
  job.node = numbers[1];
}

// Communicators for the library's own use: the program's must not see its messages.
void make_internal_comms(Job& job) {
  real().Comm_dup(constants().comm_world, &job.internal_comm);
  real().Comm_set_errhandler(job.internal_comm, constants().errors_return);
  real().Comm_split_type(job.internal_comm, MPI_COMM_TYPE_SHARED, 0, constants().info_null, &job.node_comm);
  real().Comm_group(constants().comm_world, &job.world_group);
  job.local_rank = rank_in(job.node_comm);
  job.local_size = size_of(job.node_comm);
  pretend_nodes(job);
  number_nodes(job);
}

void free_internal_comms(Job& job) {
  real().Group_free(&job.world_group);
  if (job.local_rank == 0) real().Comm_free(&job.node_leaders);
  real().Comm_free(&job.node_comm);
  real().Comm_free(&job.internal_comm);
}

// The lowest rank's problem, known to all; empty when there is none.
std::string first_problem(const Job& job, const std::string& mine) {
  int first = mine.empty() ? static_cast<int>(job.world_size) : static_cast<int>(job.world_rank);
  int lowest = 0;
  real().Allreduce(&first, &lowest, 1, constants().int32, constants().min, job.internal_comm);
  if (lowest == static_cast<int>(job.world_size)) return {};
  Text text = text_of(mine);
  real().Bcast(text.data(), static_cast<int>(text.size()), constants().byte, lowest, job.internal_comm);
  return std::string(text.data());
}

client::KeeperOptions keeper_options(const Job& job, const std::string& dpu) {
  client::KeeperOptions options;
  options.daemon_path = job.config.daemon_path;
  options.world_size = job.world_size;
  options.local_size = job.local_size;
  options.nodes = job.nodes;
  options.keepers_here = job.keepers_here;
  options.number_here = job.number_here;
  options.services = job.config.services;
  options.service_cpus = job.config.service_cpus;
  options.reach_allowed = job.config.memory.reach;
  options.start_timeout_ms = job.config.init_timeout_ms / 2;
  options.hello_timeout_ms = job.config.init_timeout_ms / 2;  // and as long again for the service processes
  options.dpu = dpu;
  options.dpu_secret = job.config.dpu_secret;
  return options;
}

client::AttachOptions attach_options(const Job& job, const client::KeeperAddress& keeper, bool on_dpu) {
  client::AttachOptions options;
  options.timeout_ms = job.config.init_timeout_ms;
  options.keeper = keeper;
  options.world_rank = WorldRank{job.world_rank};
  options.world_size = job.world_size;
  options.local_rank = job.local_rank;
  options.local_size = job.local_size;
  options.dpu = on_dpu;
  options.wait_copies = job.config.memory.wait_copies;
  options.huge_pages = job.config.memory.huge_pages;
  options.transports = job.config.transports;
  options.offer_xpmem = (job.config.memory.reach & kReachXpmem) != 0;
  options.offer_exports = (job.config.memory.reach & kReachAlias) != 0;
  return options;
}

// What the node's leader tells its other ranks.
struct Started {
  client::KeeperAddress keeper;
  std::uint32_t ok = 0;
  Text reason{};
};

// The leader starts the node's keeper. Collective over the node.
Started start_keeper(const Job& job, const std::string& dpu) {
  Started started;
  if (job.local_rank == 0) {
    const Result<client::KeeperAddress> keeper = client::start_keeper(keeper_options(job, dpu));
    started.ok = keeper.ok() ? 1 : 0;
    if (keeper) {
      started.keeper = keeper.value();
    } else {
      started.reason = text_of(keeper.error());
    }
  }
  real().Bcast(&started, static_cast<int>(sizeof started), constants().byte, 0, job.node_comm);
  return started;
}

Result<std::string> dpu_of_this_node(const Job& job) {
  std::array<char, 256> host{};
  (void)gethostname(host.data(), host.size() - 1);
  return dpu_for(job.config.dpus, host.data(), job.number_here);
}

// Empty: attached.
std::string attach_to_service(Job& job, bool on_dpu) {
  const Result<std::string> dpu = on_dpu ? dpu_of_this_node(job) : Result<std::string>(std::string());
  if (!dpu) return dpu.error();
  const Started started = start_keeper(job, dpu.value());
  if (started.ok == 0) return std::string(started.reason.data());
  Result<std::unique_ptr<client::Client>> attached =
      client::Client::attach(attach_options(job, started.keeper, on_dpu));
  if (!attached) return attached.error().empty() ? "the service process refused the rank" : attached.error();
  job.client = std::move(attached.value());
  return {};
}

// Empty: this rank has everything that it needs.
std::string set_up(Job& job, bool on_dpu) {
  if (std::string problem = attach_to_service(job, on_dpu); !problem.empty()) return problem;
  if (job.type_keyval == MPI_KEYVAL_INVALID && !register_datatypes(job)) return "MPI gives out no type attribute";
  return {};
}

// All nodes' descriptors, in the order of the nodes. Collective over the nodes' leaders.
std::vector<std::byte> exchange_node_descriptors(const Job& job, const std::vector<std::byte>& mine) {
  const int bytes = static_cast<int>(mine.size());
  std::vector<int> counts(job.nodes);
  real().Allgather(&bytes, 1, constants().int32, counts.data(), 1, constants().int32, job.node_leaders);
  std::vector<int> offsets(job.nodes);
  std::uint64_t total = 0;
  for (std::size_t node = 0; node < offsets.size(); ++node) {
    offsets[node] = static_cast<int>(total);
    total += static_cast<std::uint64_t>(counts[node]);
  }
  // Too many bytes for MPI to count, or a node without a descriptor: everybody sees the same.
  if (total > std::numeric_limits<int>::max() || std::ranges::find(counts, 0) != counts.end()) return {};
  std::vector<std::byte> all(total);
  real().Allgatherv(mine.data(), bytes, constants().byte, all.data(), counts.data(), offsets.data(), constants().byte,
                    job.node_leaders);
  return all;
}

// The service processes of all nodes get to know each other. Empty: they have, as far as this rank knows.
std::string introduce_nodes(const Job& job) {
  if (job.nodes == 1 || job.local_rank != 0) return {};
  const Result<std::vector<std::byte>> descriptor = job.client->node_leader().descriptor(job.config.init_timeout_ms);
  // Collective: also without a descriptor.
  const std::vector<std::byte> descriptors =
      exchange_node_descriptors(job, descriptor ? descriptor.value() : std::vector<std::byte>{});
  if (!descriptor) return descriptor.error();
  if (descriptors.empty()) return "a node has no descriptor";
  const Status taken = job.client->node_leader().take_job_map(descriptors, job.node, job.config.init_timeout_ms);
  return taken ? std::string() : taken.error();
}

// Empty: all ranks are served. Collective over the world.
std::string try_services(Job& job, bool on_dpu) {
  std::string problem = first_problem(job, set_up(job, on_dpu));
  if (problem.empty()) problem = first_problem(job, introduce_nodes(job));
  if (!problem.empty()) job.client.reset();
  return problem;
}

// On DPUs where there are some; where one of them cannot be used, on free cores of the hosts. Collective over the
// world.
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

// Everybody's node and service process. Collective over the world.
void learn_places(Job& job) {
  const RankPlace mine{job.node, job.client->welcome().sp};
  const int bytes = static_cast<int>(sizeof mine);
  job.places.resize(job.world_size);
  real().Allgather(&mine, bytes, constants().byte, job.places.data(), bytes, constants().byte, job.internal_comm);
}

void describe(const Job& job) {
  if (!job.config.verbose || job.world_rank != 0) return;
  const WelcomeBody& welcome = job.client->welcome();
  if (job.nodes > 1) print("offloading on %u nodes; the first has %u of the ranks", job.nodes, job.local_size);
  if (job.client->reached_by(kReachRdma)) {
    return print("offloading: %u ranks, %u service process(es) on a DPU, which reach their memory by RDMA%s",
                 job.world_size, welcome.sp_count,
                 (welcome.reach & kReachAlias) != 0 ? " and move it by exported handles" : "");
  }
  print("offloading: %u ranks, %u service process(es), core %d%s, cross-memory attach %s%s", job.world_size,
        welcome.sp_count, welcome.cpu, welcome.core_share == copy::CoreShare::own ? "" : " (shared with ranks)",
        job.client->reached_by(kReachCma) ? "available" : "not available: private buffers are packed",
        job.client->reached_by(kReachXpmem) ? ", XPMEM" : "");
}

void describe_wire(const Job& job) {
  if (!job.config.verbose || job.world_rank != 0 || job.nodes == 1) return;
  const std::vector<WireRoute> routes = job.client->statistics().wire_routes;
  if (routes.empty()) print("wire: not used by the service process of rank 0");
  for (const WireRoute& route : routes) print("wire: %s", text_of(route).c_str());
}

// The report of a job that runs natively.
void report_natively(const Job& job, const std::string& because, MPI_Comm comm, bool writes) {
  NativeJob native;
  native.world_rank = job.world_rank;
  native.world_size = job.world_size;
  native.path = report_path();
  native.because = because;
  native.comm = comm;
  native.writes = writes;
  start_native_report(native);
}

// Those who have agreed to offload cannot, all for the same reason.
void go_native(Job& job, const std::string& problem) {
  if (job.world_rank == 0) print("running natively: %s", problem.c_str());
  if (!job.config.report.empty()) {
    MPI_Comm comm{};
    real().Comm_dup(job.internal_comm, &comm);
    report_natively(job, problem, comm, job.world_rank == 0);
  }
  job.client.reset();
  if (job.type_keyval != MPI_KEYVAL_INVALID) forget_datatypes(job);
  free_internal_comms(job);
}

}  // namespace

namespace detail {
constinit std::atomic<Job*> current_job = nullptr;
}

void start_job() {
  if (current_job() != nullptr || !abi_matches() || !enabled_by_environment()) return;
  auto job = std::make_unique<Job>();
  set_world(*job);
  if (const std::string unknown = unknown_setting(); !unknown.empty() && job->world_rank == 0) {
    print("%s", unknown.c_str());
  }
  Result<Config> config = read_config();
  if (config) job->config = config.value();
  job->digest = job->config.digest();
  const Agreement agreement =
      agree_at_init(job->digest, config ? std::string() : config.error(), job->config.init_timeout_ms);
  if (!agreement.all) {
    if (!agreement.speaks) return;
    print("running natively: %s", agreement.reason.c_str());
    return report_natively(*job, agreement.reason, constants().comm_null, true);
  }
  make_internal_comms(*job);
  if (std::string problem = find_services(*job); !problem.empty()) return go_native(*job, problem);
  share_cores(*job);
  learn_places(*job);
  // Where none can be, the program's many short ones are passed on at once.
  job->config.blocking = job->config.selection.may_offload_blocking(job->nodes);
  use_shared_heap(*job);
  describe(*job);
  start_report(*job);
  if (!register_communicators(*job)) die("MPI gives out no communicator attribute");
  detail::current_job.store(job.release(), std::memory_order_release);
}

void end_job() {
  Job* job = current_job();
  if (job == nullptr) return end_native_report();
  drain_operations(*job);
  if (job->reporting) write_report(*job);
  describe_wire(*job);
  detail::current_job.store(nullptr, std::memory_order_release);
  forget_communicators(*job);
  forget_datatypes(*job);
  free_internal_comms(*job);
  job->client.reset();
  delete job;
}

}  // namespace outrigger::mpi
