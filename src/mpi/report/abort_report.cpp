// MPI_Abort, by the program or the library: a rank's last chance to report its counters.
#include <unistd.h>

#include <atomic>
#include <chrono>

#include "base/unread_output.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/report/report.hpp"
#include "mpi/report/writing.hpp"
#include "mpi/start/abort.hpp"
#include "mpi/trace/trace_job.hpp"

namespace outrigger::mpi {
namespace {

constinit std::atomic<bool> noted = false;

struct Aborting {
  template <Call call>
  static int run(const CallSite& site, Word comm, Word code) {
    if (site.inside_mpi()) return site.pass(call, comm, code);
    note_abort(static_cast<std::int32_t>(code), "");
    return site.pass(call, communicator_to_abort(comm), code);
  }
};

// In a job without a keeper the rank itself writes the report.
bool writes_itself() {
  return current_job() == nullptr && !report::text_in(ledger().header().path).empty();
}

}  // namespace

void note_abort(std::int32_t code, const std::string& why) {
  if (!observing() || noted.exchange(true)) return;
  if (tracing()) end_trace_at_abort();
  if (!counting()) return;
  end_ledger();
  change_header_at_last([&](report::LedgerHeader& header) {
    header.state = static_cast<std::uint32_t>(report::LedgerState::aborting);
    header.code = code;
    report::set_text(header.abort_text, why);
  });
  if (!writes_itself()) return;
  report::Summary summary = gather_summary(constants().comm_null);
  summary.ended.how = why.empty() ? "aborted" : "ended";
  summary.ended.code = code;
  summary.ended.rank = ledger().header().world_rank;
  summary.ended.text = why;
  write_summary(summary, true);
  wait_until_read(STDERR_FILENO, std::chrono::milliseconds(200));
}

OUTRIGGER_ENTRY(Abort, 2, Aborting)

}  // namespace outrigger::mpi
