#include "mpi/job.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "mpi/agreement.hpp"
#include "mpi/comm_state.hpp"
#include "mpi/constants.hpp"
#include "mpi/datatype.hpp"
#include "mpi/message.hpp"
#include "mpi/operation.hpp"
#include "mpi/real.hpp"
#include "mpi/report.hpp"

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

// Communicators for the library's own use: the program's must not see its messages.
void make_internal_comms(Job& job) {
  int rank = 0;
  int size = 0;
  real().Comm_dup(constants().comm_world, &job.internal_comm);
  real().Comm_set_errhandler(job.internal_comm, constants().errors_return);
  real().Comm_split_type(job.internal_comm, MPI_COMM_TYPE_SHARED, 0, constants().info_null, &job.node_comm);
  real().Comm_rank(job.node_comm, &rank);
  real().Comm_size(job.node_comm, &size);
  real().Comm_group(constants().comm_world, &job.world_group);
  job.local_rank = static_cast<std::uint32_t>(rank);
  job.local_size = static_cast<std::uint32_t>(size);
}

void free_internal_comms(Job& job) {
  real().Group_free(&job.world_group);
  real().Comm_free(&job.node_comm);
  real().Comm_free(&job.internal_comm);
}

// The first rank's problem, known to all; empty when there is none.
std::string first_problem(const Job& job, const std::string& mine) {
  int first = mine.empty() ? static_cast<int>(job.world_size) : static_cast<int>(job.world_rank);
  int lowest = 0;
  real().Allreduce(&first, &lowest, 1, constants().int32, constants().min, job.internal_comm);
  if (lowest == static_cast<int>(job.world_size)) return {};
  Text text = text_of(mine);
  real().Bcast(text.data(), static_cast<int>(text.size()), constants().byte, lowest, job.internal_comm);
  return std::string(text.data());
}

// Do more ranks may run on this rank's cores than there are cores? Collective over the node.
bool cores_are_shared(const Job& job) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  if (sched_getaffinity(0, sizeof mine, &mine) != 0) return true;
  std::vector<cpu_set_t> all(job.local_size);
  const int bytes = static_cast<int>(sizeof mine);
  real().Allgather(&mine, bytes, constants().byte, all.data(), bytes, constants().byte, job.node_comm);
  double load = 0;  // ranks that would run on my cores if each spread evenly over its own
  for (const cpu_set_t& other : all) {
    cpu_set_t common;
    CPU_AND(&common, &mine, &other);
    load += static_cast<double>(CPU_COUNT(&common)) / std::max(1, CPU_COUNT(&other));
  }
  return load > CPU_COUNT(&mine) + 0.01;
}

// What the node's first rank tells the others.
struct Meeting {
  client::KeeperAddress address;
  std::uint32_t ok = 0;
  Text reason{};
};

Meeting meet(const Job& job) {
  Meeting meeting;
  if (job.local_rank == 0) {
    client::KeeperOptions options;
    options.daemon_path = job.config.daemon_path;
    options.world_size = job.world_size;
    options.local_size = job.local_size;
    options.services = job.config.services;
    options.service_cpus = job.config.service_cpus;
    options.reach_allowed = job.config.reach;
    const Result<client::KeeperAddress> started = client::start_keeper(options);
    meeting.ok = started.ok() ? 1 : 0;
    if (started) {
      meeting.address = started.value();
    } else {
      meeting.reason = text_of(started.error());
    }
  }
  real().Bcast(&meeting, static_cast<int>(sizeof meeting), constants().byte, 0, job.node_comm);
  return meeting;
}

// Empty: attached.
std::string attach_to_service(Job& job) {
  const Meeting meeting = meet(job);
  if (meeting.ok == 0) return std::string(meeting.reason.data());
  client::AttachOptions options;
  options.keeper = meeting.address;
  options.world_rank = WorldRank{job.world_rank};
  options.world_size = job.world_size;
  options.local_rank = job.local_rank;
  options.local_size = job.local_size;
  Result<std::unique_ptr<client::Client>> attached = client::Client::attach(options);
  if (!attached) return attached.error().empty() ? "the service process refused the rank" : attached.error();
  job.client = std::move(attached.value());
  return {};
}

// Empty: this rank has everything that it needs.
std::string set_up(Job& job) {
  if (job.local_size != job.world_size) {
    return "the program runs on more than one node; this version serves one node";
  }
  if (std::string problem = attach_to_service(job); !problem.empty()) return problem;
  if (!register_datatypes(job)) return "MPI gives out no type attribute";
  return {};
}

void describe(const Job& job) {
  if (!job.config.verbose || job.world_rank != 0) return;
  const WelcomeBody& welcome = job.client->welcome();
  print("offloading: %u ranks, %u service process(es), core %d%s, cross-memory attach %s", job.world_size,
        welcome.sp_count, welcome.cpu, welcome.core_is_free != 0 ? "" : " (shared with ranks)",
        job.client->cma() ? "available" : "not available: private buffers are packed");
}

}  // namespace

namespace detail {
constinit std::atomic<Job*> current_job = nullptr;
}

void start_job() {
  if (current_job() != nullptr || !abi_matches() || !enabled_by_environment()) return;
  auto job = std::make_unique<Job>();
  set_world(*job);
  Result<Config> config = read_config();
  if (config) job->config = config.value();
  job->digest = job->config.digest();
  const Agreement agreement =
      agree_at_init(job->digest, config ? std::string() : config.error(), job->config.init_timeout_ms);
  if (!agreement.all) {
    if (agreement.speaks) print("running natively: %s", agreement.reason.c_str());
    return;
  }
  make_internal_comms(*job);
  const std::string problem = first_problem(*job, set_up(*job));
  if (!problem.empty()) {
    if (job->world_rank == 0) print("running natively: %s", problem.c_str());
    job->client.reset();
    if (job->type_keyval != MPI_KEYVAL_INVALID) forget_datatypes(*job);
    free_internal_comms(*job);
    return;
  }
  job->reporting = !job->config.report.empty();
  job->crowded = cores_are_shared(*job);
  describe(*job);
  start_report(*job);
  if (!register_communicators(*job)) die("MPI gives out no communicator attribute");
  detail::current_job.store(job.release(), std::memory_order_release);
}

void end_job() {
  Job* job = current_job();
  if (job == nullptr) return;
  drain_operations(*job);
  if (job->reporting) write_report(*job);
  detail::current_job.store(nullptr, std::memory_order_release);
  forget_communicators(*job);
  forget_datatypes(*job);
  free_internal_comms(*job);
  job->client.reset();
  delete job;
}

}  // namespace outrigger::mpi
