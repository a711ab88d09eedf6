// The report of an offloaded job.
#include <algorithm>

#include "mpi/job/job.hpp"
#include "mpi/memory/preloaded_heap.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/report/comm_records.hpp"
#include "mpi/report/data_calls.hpp"
#include "mpi/report/report.hpp"
#include "mpi/report/wire_use.hpp"
#include "mpi/report/writing.hpp"
#include "mpi/trace/traced_requests.hpp"

namespace outrigger::mpi {
namespace {

report::ServiceFigures service_of(const client::RankEndpoint& client) {
  const WelcomeBody& welcome = client.welcome();
  report::ServiceFigures figures;
  figures.sp = welcome.sp;
  figures.processes = welcome.sp_count;
  figures.cpu = welcome.cpu;
  figures.core_is_free = welcome.core_share == copy::CoreShare::own ? 1 : 0;
  figures.cross_memory_attach = client.reached_by(kReachCma) ? 1 : 0;
  figures.xpmem = client.reached_by(kReachXpmem) ? 1 : 0;
  return figures;
}

void note_statistics(const client::RankEndpoint& client) {
  const client::ClientStatistics statistics = client.statistics();
  change_header([&](report::LedgerHeader& header) {
    header.last.waiting_bytes = statistics.helped_bytes;
    header.last.spare_bytes = statistics.spare_bytes;
    header.last.huge_bytes = statistics.huge_bytes;
    header.service.measured(statistics.service_ran_ns, statistics.service_waited_ns);
    header.service.other_job = statistics.service_other_job;
    header.service.restarts = statistics.service_restarts;
    report::set_text(header.service.warning, statistics.service_warning);
    header.last.wire_routes =
        static_cast<std::uint32_t>(std::min(statistics.wire_routes.size(), header.last.routes.size()));
    std::copy_n(statistics.wire_routes.begin(), header.last.wire_routes, header.last.routes.begin());
  });
}

void show_messages() {
  change_header([](report::LedgerHeader& header) { header.shows_messages = 1; });
  publish_messages();
  watch_all_completions();
  settle_data_calls_again();
}

// Collective over the world: sums up and writes on world rank 0.
void write_report(const Job& job) {
  report::Summary summary = gather_summary(constants().comm_world);
  summary.wire = gather_wire_use(job);
  if (job.config.memory.heap) summary.heap = gather_heap_counts(job);
  summary.ended.how = "finalized";
  if (job.world_rank == 0) write_summary(summary, true);
}

}  // namespace

void start_report(Job& job) {
  const bool wanted = !job.config.report.empty() || job.config.live;
  if (!wanted || !start_counting()) return;
  job.reporting = true;
  static_cast<void>(register_comm_records());  // without the attribute it takes a little longer
  begin_ledger({job.world_rank, job.world_size, job.config.report.empty() ? "" : absolute_path(job.config.report), ""});
  change_header([&](report::LedgerHeader& header) {
    header.nodes = job.nodes;
    header.node = job.node;
    header.heap_is_used = job.config.memory.heap ? 1 : 0;
    header.service = service_of(*job.client);
  });
  if (job.config.live) show_messages();
  if (ledger().fd() >= 0) job.client->control().show(ControlKind::counts, ledger().fd());
  if (job.world_rank == 0 && !job.config.report.empty()) write_beginning();
}

void end_report(const Job& job) {
  note_statistics(*job.client);
  end_ledger();
  if (!job.config.report.empty()) write_report(job);
  change_header(
      [](report::LedgerHeader& header) { header.state = static_cast<std::uint32_t>(report::LedgerState::finalized); });
  stop_counting();
  forget_comm_records();
}

}  // namespace outrigger::mpi
