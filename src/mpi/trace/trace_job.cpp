#include "mpi/trace/trace_job.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "mpi/job/job.hpp"
#include "mpi/job/patience.hpp"
#include "mpi/job/world_exchange.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/message.hpp"
#include "mpi/report/comm_records.hpp"
#include "mpi/report/counting.hpp"
#include "mpi/report/writing.hpp"
#include "mpi/trace/clocks.hpp"
#include "mpi/trace/gathering.hpp"
#include "mpi/trace/tracing.hpp"
#include "trace/snapshot.hpp"

namespace outrigger::mpi {
namespace {

// Time for the service process to get the memory from the keeper; later its first events are missing.
constexpr std::chrono::milliseconds kForTheService{1000};
// Time for a DPU's service process to deliver its events. Longer than a DPU takes to count as lost: its replacement is
// not asked.
constexpr std::chrono::seconds kForTheDpu{10};

constinit bool traces_together = false;

trace::About about_rank(std::uint32_t rank, std::uint32_t size) {
  trace::About about;
  about.world_rank = rank;
  about.world_size = size;
  report::set_text(about.mpi, constants().mpi_name);
  return about;
}

bool is_shared() {
  return trace_memory().header().shared.load(std::memory_order_acquire) != 0;
}

bool is_settled() {
  return trace_memory().header().settled.load(std::memory_order_acquire) != 0;
}

void settle_on_dpu(Job& job) {
  job.client->control().show(ControlKind::trace_settle);
  const auto over = [&] { return is_settled() || job.client->fatal(); };
  if (!wait_until(std::chrono::steady_clock::now() + kForTheDpu, over)) {
    print("the trace lacks the last events of the DPU of rank %u: they have not arrived in time", job.world_rank);
  }
}

// All ranks trace or none does: the steps in MPI_Finalize are collective.
bool start_together(const trace::About& about, const std::string& path) {
  const bool mine = register_comm_records() && start_tracing(about, absolute_path(path));
  const auto all = gather_from_all(static_cast<std::uint8_t>(mine ? 1 : 0), about.world_size);
  traces_together = std::ranges::all_of(all, [](std::uint8_t one) { return one != 0; });
  if (mine && !traces_together) stop_tracing();
  return traces_together;
}

void write_alone() {
  const trace::Header& header = trace_memory().header();
  const std::string path = report::text_in(header.path) + ".rank-" + std::to_string(header.about.world_rank);
  const Status written = trace::write_parts(path, {trace::snapshot(trace_memory())});
  if (!written) print("the trace could not be written to %s: %s", path.c_str(), written.error().c_str());
}

}  // namespace

void start_trace(Job& job) {
  if (job.config.trace.empty()) return;
  trace::About about = about_rank(job.world_rank, job.world_size);
  about.node = job.node;
  about.nodes = job.nodes;
  about.service = job.client->welcome().sp;
  about.service_cpu = job.client->welcome().cpu;
  about.at_start = compare_clocks(job.world_rank, job.world_size);
  about.started_ns = monotonic_ns();
  if (!start_together(about, job.config.trace)) return;
  if (trace_memory().fd() < 0) return;
  job.client->control().show(ControlKind::trace, trace_memory().fd());
  (void)wait_until(std::chrono::steady_clock::now() + kForTheService, &is_shared);
}

void start_native_trace(const NativeTrace& trace) {
  if (trace.path.empty()) return;
  trace::About about = about_rank(trace.world_rank, trace.world_size);
  report::set_text(about.native_because, trace.because);
  if (trace.together) about.at_start = compare_clocks(trace.world_rank, trace.world_size);
  about.started_ns = monotonic_ns();
  if (trace.together) {
    (void)start_together(about, trace.path);
  } else if (register_comm_records()) {
    (void)start_tracing(about, absolute_path(trace.path));
  }
}

void end_trace() {
  const bool together = std::exchange(traces_together, false);
  if (!tracing()) return;
  stop_tracing();
  trace::Header& header = trace_memory().header();
  header.about.ended_ns = monotonic_ns();
  if (!together) return write_alone();
  if (Job* job = current_job(); job != nullptr && job->on_dpu && trace_memory().fd() >= 0) settle_on_dpu(*job);
  header.about.at_end = compare_clocks(header.about.world_rank, header.about.world_size);
  const bool gathered = gather_parts(trace::snapshot(trace_memory()), report::text_in(header.path));
  header.gathered.store(gathered ? 1 : 0, std::memory_order_release);
}

void end_trace_at_abort() {
  stop_tracing();
  trace_memory().header().about.ended_ns = monotonic_ns();
  if (current_job() == nullptr || trace_memory().fd() < 0) write_alone();
}

}  // namespace outrigger::mpi
