#include <atomic>

#include "mpi/native/die.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/polite/polite_waits.hpp"
#include "mpi/report/report.hpp"
#include "mpi/report/window_rows.hpp"
#include "mpi/start/children.hpp"
#include "mpi/start/finalize.hpp"
#include "mpi/start/lifecycle.hpp"

namespace outrigger::mpi {
namespace {

constinit std::atomic<bool> mpi_started = false;

// With a profiling tool in between, MPI_Init is entered twice here: as MPI_Init, and inside it as PMPI_Init.
struct Initialization {
  template <Call call, class... Words>
  static int run(const CallSite& site, Words... words) {
    const bool was_started = mpi_started;
    if (!was_started) {
      prepare_polite_waits();
      prepare_windows();
    }
    const int code = site.pass(call, words...);
    if (code != MPI_SUCCESS || site.inside_mpi()) return code;
    if (mpi_started.exchange(true)) {
      if (site.tool != nullptr && !was_started) trust_tools();  // it has called PMPI_Init
      return code;
    }
    observe_aborts(&note_abort);
    spare_children();
    start_job();
    end_after_callbacks();
    begin_windows();
    return code;
  }
};

}  // namespace

OUTRIGGER_ENTRY(Init, 2, Initialization)
OUTRIGGER_ENTRY(Init_thread, 4, Initialization)

}  // namespace outrigger::mpi
