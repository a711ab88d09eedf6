#include "mpi/report/window_rows.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <mutex>
#include <numeric>
#include <string_view>

#include "mpi/memory/accelerators.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/report/call_sites.hpp"
#include "mpi/report/ledger_rows.hpp"
#include "mpi/windows/foreign_calls.hpp"
#include "protocol/options/settings.hpp"

namespace outrigger::mpi {
namespace {

using report::LedgerRow;
using report::NoWindow;

// Enough for a place's mean. A guard takes some hundred microseconds, and so does a refusal. Further calls are only
// counted.
constexpr std::uint64_t kMostTries = 1000;
// Nonblocking calls at a time. The waits of further ones have no window.
constexpr std::size_t kMostStarted = 4096;

constinit bool are_windows_wanted = false;  // written in MPI_Init

constinit std::mutex started_mutex;
using StartedCalls = std::map<std::uint64_t, CompletionWindow::Started>;
StartedCalls& started_calls() {
  static auto* all = new StartedCalls;  // until the end of the process
  return *all;
}

// Counts windows that have ended since the last call. Handlers cannot do that: the ledger's lock may be held.
void count_ended() {
  EndedGuard ended;
  while (take_ended_guard(ended)) {
    change_row(*static_cast<LedgerRow*>(ended.call.owner), [&](LedgerRow& row) {
      report::WindowFigures& windows = row.windows;
      ++windows.calls;
      ++windows.ends[static_cast<std::size_t>(ended.end)];
      windows.unused_ns += ended.lasted_ns;
      windows.spent_ns += ended.call.spent_ns;
      windows.hidden_ns += std::min(ended.lasted_ns, ended.call.spent_ns);
    });
  }
}

bool has_enough(const LedgerRow& site) {
  const report::WindowFigures& windows = site.windows;
  return windows.calls + std::accumulate(windows.without.begin(), windows.without.end(), std::uint64_t{0}) >=
         kMostTries;
}

void count_without(LedgerRow& site, NoWindow why) {
  change_row(site, [&](LedgerRow& row) { ++row.windows.without[static_cast<std::size_t>(why)]; });
}

// The guard begins last: until then the data are not the program's. `find`: returns them.
template <class Find>
void begin_at(LedgerRow& site, std::int64_t spent_ns, const Find& find) {
  count_ended();
  if (has_enough(site)) return count_without(site, NoWindow::limit);
  const auto buffers = find();
  if (!buffers.has_data()) return;
  NoWindow why = NoWindow::layout;
  if (!buffers.pages().empty()) {
    why = accelerator_loaded() ? NoWindow::others : foreign_calls();
    if (why == NoWindow::none) why = guard({&site, spent_ns}, buffers.pages());
  }
  if (why != NoWindow::none) count_without(site, why);
}

// If another call has the same request, a wait may be for either.
void remember_started(std::uint64_t request, const CompletionWindow::Started& started) {
  const std::scoped_lock lock(started_mutex);
  const auto [place, is_new] = started_calls().try_emplace(request, started);
  if (!is_new || !started.buffers.has_data() || started_calls().size() > kMostStarted) started_calls().erase(place);
}

void forget_started(std::uint64_t request) {
  const std::scoped_lock lock(started_mutex);
  started_calls().erase(request);
}

// Calls that hand data to the MPI, and that a library for this ABI does not intercept: the loaded MPI is newer.
bool has_further_calls() {
#if OUTRIGGER_MPI4
  return false;
#else
  return std::ranges::any_of(std::array{"PMPI_Isendrecv", "PMPI_Pready", "PMPI_Send_c"},
                             [](const char* name) { return function_if_there(name) != nullptr; });
#endif
}

}  // namespace

namespace detail {
constinit std::atomic<bool> measures_windows = false;
}

void prepare_windows() {
  const char* value = std::getenv(setting::kWindows);
  are_windows_wanted = value != nullptr && parse_switch(value) == true;
  if (are_windows_wanted) note_threads_before_mpi();
}

void begin_windows() {
  if (!are_windows_wanted || !counting() || !abi_matches()) return;
  note_threads_of_mpi();
  if (has_further_calls()) forbid_guards(NoWindow::calls);
  if (wants_progress_threads()) forbid_guards(NoWindow::threads);
  detail::measures_windows.store(true, std::memory_order_relaxed);
}

void end_windows() {
  if (!measuring_windows()) return;
  detail::measures_windows.store(false, std::memory_order_relaxed);
  forbid_guards();
  if (counting()) count_ended();
}

void begin_window(const CallCount& call) {
  if (call.kind().form == CallForm::persistent) return;  // these are not measured
  const auto buffers = [&] { return CallBuffers(call.kind().call, call.words(), call.has_large_counts()); };
  if (call.kind().form == CallForm::nonblocking) {
    return remember_started(handle_key(call.request()), {call.kind(), buffers()});
  }
  if (call.site() != nullptr) begin_at(*call.site(), call.spent_ns(), buffers);
}

CompletionWindow::Measured::Measured(const CallSite& site, Call call, std::span<const Word> words) {
  const bool one = call == Call::Wait || call == Call::Test;
  const auto* requests = argument<const MPI_Request*>(words[one ? 0 : 1]);
  const int count = one ? 1 : argument<int>(words[0]);
  if (requests == nullptr || count <= 0) return;
  waits_ = call == Call::Wait || call == Call::Waitall || call == Call::Waitany || call == Call::Waitsome;
  const std::scoped_lock lock(started_mutex);
  for (int i = 0; i < count; ++i) {
    const auto found = started_calls().find(handle_key(requests[i]));
    if (found == started_calls().end()) continue;
    if (site.inside_mpi()) {
      started_calls().erase(found);  // the MPI reuses requests that it has completed
    } else {
      started_.push_back({requests + i, requests[i], found->second});
    }
  }
  if (!started_.empty()) began_ns_ = monotonic_ns();
}

// Requests of operations that are done are gone. A call on several operations counts for the first.
void CompletionWindow::Measured::end() {
  if (started_.empty()) return;
  const std::int64_t spent_ns = monotonic_ns() - began_ns_;
  BuffersOfCalls all;
  const Watched* first = nullptr;
  for (std::size_t i = 0; i < started_.size(); ++i) {
    const Watched& watched = started_[i];
    if (*watched.place == watched.request) continue;
    if (first == nullptr) first = &watched;
    all.add(watched.started.buffers);
    forget_started(handle_key(watched.request));
  }
  if (first == nullptr || !waits_ || !counting()) return;
  LedgerRow* const site = CompletionOrigin::row_for(first->started.kind);
  if (site != nullptr) begin_at(*site, spent_ns, [&] { return all; });
}

}  // namespace outrigger::mpi
