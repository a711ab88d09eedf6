#include "mpi/start/lifecycle.hpp"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/program_name.hpp"
#include "base/time_slice.hpp"
#include "mpi/collectives/offloaded_collective.hpp"
#include "mpi/communicators/comm_state.hpp"
#include "mpi/communicators/off_marks.hpp"
#include "mpi/completion/driving.hpp"
#include "mpi/completion/native_waits.hpp"
#include "mpi/completion/waiting.hpp"
#include "mpi/intranode/rank_team.hpp"
#include "mpi/job/job.hpp"
#include "mpi/job/standing.hpp"
#include "mpi/memory/preloaded_heap.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/die.hpp"
#include "mpi/native/message.hpp"
#include "mpi/native/real.hpp"
#include "mpi/persistent/persistent.hpp"
#include "mpi/polite/polite_waits.hpp"
#include "mpi/report/on_demand.hpp"
#include "mpi/report/phases.hpp"
#include "mpi/report/report.hpp"
#include "mpi/start/agreement.hpp"
#include "mpi/start/find_services.hpp"
#include "mpi/trace/trace_job.hpp"
#include "mpi/types/datatype.hpp"

namespace outrigger::mpi {
namespace {

std::string mpi_name() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (real().Get_library_version(text.data(), &length) != MPI_SUCCESS) return "unknown";
  std::string name(text.data());
  return name.substr(0, name.find('\n'));
}

void refuse_decision_file(const std::string& path) {
  print(
      "%s is not a file of choices for this program, machine, MPI and placement and is not changed; remove it to keep "
      "new choices",
      path.c_str());
}

void refuse_order_file(const std::string& path) {
  print(
      "%s is not a file of orders of addition for this machine, MPI and placement and is not changed; remove it to "
      "keep new ones",
      path.c_str());
}

// An MPI that is built anew may add in another order.
std::string mpi_build() {
  std::string build = mpi_name();
  Dl_info library{};
  struct stat file {};
  if (::dladdr(reinterpret_cast<const void*>(real().Allreduce), &library) == 0) return build;
  if (::stat(library.dli_fname, &file) != 0) return build;
  return build + ", " + std::to_string(file.st_size) + " bytes of " + std::to_string(file.st_mtime);
}

// Settings by which MPIs choose their algorithms.
std::string mpi_settings() {
  static constexpr std::array<std::string_view, 11> kPrefixes{
      "OMPI_MCA_coll", "OMPI_MCA_op",   "OMPI_MCA_pml", "OMPI_MCA_btl", "MPIR_CVAR_", "MPICH_",
      "I_MPI_ADJUST",  "I_MPI_FABRICS", "MV2_",         "UCC_",         "HCOLL_"};
  std::vector<std::string_view> settings;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return text.starts_with(prefix); })) {
      settings.push_back(text);
    }
  }
  std::ranges::sort(settings);
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const std::string_view text : settings) {
    for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3ULL;
  }
  return std::to_string(settings.size()) + " settings of the MPI (" + std::to_string(hash) + ")";
}

void set_world(Job& job) {
  int rank = 0;
  int size = 0;
  real().Comm_rank(constants().comm_world, &rank);
  real().Comm_size(constants().comm_world, &size);
  job.world_rank = static_cast<std::uint32_t>(rank);
  job.world_size = static_cast<std::uint32_t>(size);
}

// No collective may be used here: it would block inside the MPI (patience.hpp).
void make_handles(Job& job) {
  real().Comm_dup(constants().comm_self, &job.packing_comm);
  real().Comm_set_errhandler(job.packing_comm, constants().errors_return);
  real().Comm_group(constants().comm_world, &job.world_group);
}

void free_handles(Job& job) {
  real().Group_free(&job.world_group);
  real().Comm_free(&job.packing_comm);
}

const char* core_in_words(const WelcomeBody& welcome) {
  if (welcome.core_share == copy::CoreShare::own) return "";
  return welcome.other_job != 0 ? " (shared with another job)" : " (shared with ranks)";
}

// The user named this core, so it is used. `outrigger run` has printed the warning before.
void warn_of_other_job(const Job& job) {
  const WelcomeBody& welcome = job.client->welcome();
  if (job.local_rank != 0 || welcome.other_job == 0) return;
  if (job.config.service_cpus.empty() || !job.config.claims_job.empty()) return;
  const std::string who = welcome.other_job > 0 ? " (process " + std::to_string(welcome.other_job) + ")" : "";
  print("another job%s also uses core %d of %s: service processes yield there", who.c_str(), welcome.cpu,
        setting::kServiceCpus);
}

void describe(const Job& job) {
  warn_of_other_job(job);
  if (!job.config.verbose || job.world_rank != 0) return;
  const WelcomeBody& welcome = job.client->welcome();
  if (job.nodes > 1) print("offloading on %u nodes; the first has %u of the ranks", job.nodes, job.local_size);
  if (job.client->reached_by(kReachRdma)) {
    return print("offloading: %u ranks, %u service process(es) on a DPU, which reach their memory by RDMA%s",
                 job.world_size, welcome.sp_count,
                 (welcome.reach & kReachAlias) != 0 ? " and move it by exported handles" : "");
  }
  print("offloading: %u ranks, %u service process(es), core %d%s, cross-memory attach %s%s", job.world_size,
        welcome.sp_count, welcome.cpu, core_in_words(welcome),
        job.client->reached_by(kReachCma) ? "available" : "not available: private buffers are packed",
        job.client->reached_by(kReachXpmem) ? ", XPMEM" : "");
}

void describe_wire(const Job& job) {
  if (!job.config.verbose || job.world_rank != 0 || job.nodes == 1) return;
  const std::vector<WireRoute> routes = job.client->statistics().wire_routes;
  if (routes.empty()) print("wire: not used by the service process of rank 0");
  for (const WireRoute& route : routes) print("wire: %s", text_of(route).c_str());
}

// Choices that were better on other cores may be worse on these.
std::string whose_cores(const Job& job) {
  const bool apart = job.cores != copy::RankCores::shared_with_ranks;
  return std::string(apart ? "ranks have their own" : "ranks share theirs") + ", service processes " +
         (job.dispatch.native_at_first ? "are on them" : "have others");
}

// MPIs look at it when they choose algorithms.
std::string where_ranks_are(const Job& job) {
  const bool apart = job.cores != copy::RankCores::shared_with_ranks;
  return std::to_string(job.world_size) + " ranks, " + std::to_string(job.local_size) + " here, " +
         std::to_string(job.nodes) + (apart ? " nodes, ranks have their own, " : " nodes, ranks share theirs, ") +
         mpi_settings();
}

constinit bool together = false;  // written in MPI_Init

// Starts the report of a job that runs natively.
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

// Starts its trace. `with_all`: all ranks have the library.
void trace_natively(const Job& job, const std::string& because, bool with_all) {
  start_native_trace({job.world_rank, job.world_size, trace_path(), because, with_all});
}

// Empty: all ranks are served; else why none is. Collective over the world.
std::string serve(Job& job) {
  if (!job.config.without_services) return find_services(job);
  find_places(job);
  return "no service processes were requested (OUTRIGGER_SERVICES=0)";
}

// The ranks of a node may do collectives by themselves from now on, unless the user has said no or the MPI gives out no
// attributes.
bool begin_intranode(Job& job) {
  if (job.config.intranode == Config::Intranode::off) return false;
  if (job.type_keyval == MPI_KEYVAL_INVALID && !register_datatypes(job)) return false;
  if (!register_teams(job)) return false;
  if (job.client == nullptr && !register_off_marks(job)) return false;
  if (job.config.sums == Config::Sums::native) {
    job.orders = std::make_unique<intranode::OrderFile>(where_ranks_are(job), mpi_build(), &refuse_order_file);
  }
  detail::intranode_job.store(&job, std::memory_order_release);
  return true;
}

void forget_handles(Job& job) {
  if (job.orders) job.orders->save();
  forget_teams(job);
  forget_off_marks(job);
  if (job.type_keyval != MPI_KEYVAL_INVALID) forget_datatypes(job);
  free_handles(job);
}

// Ends a job in which nothing is offloaded.
void end_intranode_job() {
  Job* job = detail::intranode_job.exchange(nullptr, std::memory_order_acq_rel);
  if (job == nullptr) return;
  end_driving();
  forget_handles(*job);
  delete job;
}

// Those who have agreed to offload cannot, all for the same reason.
std::string go_native(std::unique_ptr<Job> kept, const std::string& problem) {
  Job& job = *kept;
  together = true;
  if (job.world_rank == 0 && !job.config.without_services) print("running natively: %s", problem.c_str());
  if (!job.config.report.empty()) {
    report_natively(job, problem, constants().comm_world, job.world_rank == 0);
  }
  trace_natively(job, problem, true);
  job.client.reset();
  if (begin_intranode(job)) {
    static_cast<void>(kept.release());
  } else {
    forget_handles(job);
  }
  return problem;
}

// The reason why the job runs natively; empty: it is offloaded.
std::string try_to_start() {
  if (!abi_matches())
    return std::string("the preload library is for ") + kAbiName + ", and the program uses another MPI";
  if (!enabled_by_environment()) return "OUTRIGGER_ENABLE is off";
  // Each step of the start waits for ranks and service processes that need a core. Keepers inherit this.
  const ShortSlices short_slices;
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
    trace_natively(*job, agreement.reason, false);
    if (!agreement.speaks) return agreement.reason.empty() ? "another rank has printed the reason" : agreement.reason;
    print("running natively: %s", agreement.reason.c_str());
    report_natively(*job, agreement.reason, constants().comm_null, true);
    return agreement.reason;
  }
  make_handles(*job);
  std::string problem = serve(*job);
  begin_polite_waits(*job);
  if (!problem.empty()) return go_native(std::move(job), problem);
  if (job->config.measured_choice) {
    job->decisions =
        std::make_unique<steer::DecisionFile>(program_name(), whose_cores(*job), &mpi_name, &refuse_decision_file);
  }
  job->dispatch.table = &job->config.selection;
  job->dispatch.decisions = job->decisions.get();
  job->dispatch.early_trials = job->config.early_trials;
  // Where none can be, the program's many short ones are passed on at once.
  job->config.blocking = job->config.selection.may_offload_blocking(job->nodes);
  use_shared_heap(*job);
  describe(*job);
  start_report(*job);
  start_trace(*job);
  if (!register_communicators(*job)) die("MPI gives out no communicator attribute");
  static_cast<void>(begin_intranode(*job));
  detail::current_job.store(job.release(), std::memory_order_release);
  return {};
}

}  // namespace

void start_job() {
  if (current_job() != nullptr) return;
  note_started(try_to_start());
  begin_wanted_counting();
}

bool together_without_job() {
  return together;
}

void end_job() {
  Job* job = current_job();
  note_open_phases();
  note_finalized();
  if (job == nullptr) {
    end_intranode_job();
    end_trace();
    end_native_report();
    return end_counting_on_demand();
  }
  drain_operations(*job);
  forget_spare_operations();
  end_driving();
  end_native_waits();
  static_cast<void>(job->client->fatal());  // a rank that never waits long has not checked
  say_if_unprotected(*job);
  if (job->reporting) end_report(*job);
  end_trace();
  end_counting_on_demand();
  keep_decisions(*job);
  describe_wire(*job);
  detail::intranode_job.store(nullptr, std::memory_order_release);
  detail::current_job.store(nullptr, std::memory_order_release);
  forget_all_persistent();
  forget_spare_operations();
  forget_communicators(*job);
  forget_handles(*job);
  job->client.reset();
  delete job;
}

}  // namespace outrigger::mpi
