// Entry points of collectives (entry.hpp) that count for a report and record for a trace. Without both this costs one
// load.
#pragma once

#include <array>

#include "mpi/native/entry.hpp"
#include "mpi/report/call_count.hpp"
#include "mpi/report/call_sites.hpp"
#include "mpi/report/native_requests.hpp"
#include "mpi/report/window_rows.hpp"
#include "protocol/collective_calls.hpp"
#include "steer/rank/trial_clock.hpp"

namespace outrigger::mpi {

enum class Counts : bool { int_sized, large };

// `Handler` does the call.
template <CollectiveCall collective, CallForm form, Counts counts, class Handler>
struct Counted {
  template <Call call, class... Words>
  [[nodiscard]] static bool passes_at_once(Words... words) {
    return !steer::measuring() && !observing() && ::outrigger::mpi::passes_at_once<call, Handler>(words...);
  }
  template <Call call, class... Words>
  static int run(const CallSite& site, Words... words) {
    if (steer::measuring()) [[unlikely]]
      return run_measured<call>(site, words...);
    return run_as_asked<call>(site, words...);
  }

 private:
  template <Call call, class... Words>
  [[gnu::noinline]] static int run_measured(const CallSite& site, Words... words) {
    const steer::InsideMpi inside;
    return run_as_asked<call>(site, words...);
  }
  template <Call call, class... Words>
  static int run_as_asked(const CallSite& site, Words... words) {
    if (!observing()) [[likely]] {
      return Handler::template run<call>(site, words...);
    }
    return run_counted<call>(site, words...);
  }

  template <Call call, class... Words>
  [[gnu::noinline]] static int run_counted(const CallSite& site, Words... words) {
    end_guards(report::WindowEnd::mpi_call);
    if (site.inside_mpi()) return Handler::template run<call>(site, words...);
    const std::array all{words...};
    CallCount count(CallKind{collective, form}, all, counts == Counts::large);
    count.begins(counting() ? row_of_site(CallOrigin{site.caller, &count}) : nullptr);
    const int code = Handler::template run<call>(site, words...);
    count.ended(code);
    if (!counting()) return code;
    report::LedgerRow* watched = count.count();
    if (watched != nullptr) watch_request(count, *watched);
    if (measuring_windows() && code == MPI_SUCCESS) begin_window(count);
    return code;
  }

  // Persistent collectives are counted when they start.
  static report::LedgerRow* row_of_site(const CallOrigin& origin) {
    return form != CallForm::persistent ? site_row(CallKind{collective, form}, origin) : nullptr;
  }
};

}  // namespace outrigger::mpi
