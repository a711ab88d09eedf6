// The report of a native job, which has no keeper: each rank can report only while it lives.
#include <optional>
#include <utility>

#include "mpi/native/constants.hpp"
#include "mpi/native/real.hpp"
#include "mpi/report/comm_records.hpp"
#include "mpi/report/report.hpp"
#include "mpi/report/writing.hpp"

namespace outrigger::mpi {
namespace {

std::optional<NativeJob>& native_job() {
  static auto* one = new std::optional<NativeJob>;
  return *one;
}

}  // namespace

void start_native_report(const NativeJob& job) {
  if (job.path.empty() || !start_counting()) return;
  begin_ledger({job.world_rank, job.world_size, absolute_path(job.path), job.because});
  if (!register_comm_records()) stop_counting();
  native_job() = job;
  if (job.writes) write_beginning();
}

void end_native_report() {
  std::optional<NativeJob> job = std::exchange(native_job(), std::nullopt);
  if (!job) return;
  end_ledger();
  report::Summary summary = gather_summary(job->comm);
  summary.ended.how = "finalized";
  if (job->writes) write_summary(summary, true);
  stop_counting();
  forget_comm_records();
}

}  // namespace outrigger::mpi
