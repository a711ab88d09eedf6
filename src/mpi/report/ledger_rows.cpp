#include "mpi/report/ledger_rows.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "mpi/native/message.hpp"
#include "mpi/native/wait_figures.hpp"

namespace outrigger::mpi {
namespace {

using report::LedgerRow;

constinit FutexLock ledger_mutex;
constinit std::uint32_t sites_made = 0;
constinit bool is_readable = false;  // there is a ledger of this process
[[gnu::tls_model("initial-exec")]] constinit thread_local LedgerRow* phase_row = nullptr;
// The row has this thread's time until then.
[[gnu::tls_model("initial-exec")]] constinit thread_local std::int64_t phase_since_ns = 0;

std::optional<report::Ledger>& the_ledger() {
  static auto* one = new std::optional<report::Ledger>;  // until the end of the process
  return *one;
}

// The ledger is not mapped there.
void forget_in_child() {
  stop_counting();
  is_readable = false;
}

}  // namespace

namespace detail {
constinit std::atomic<std::uint8_t> observing = 0;
}

bool start_counting() {
  Result<report::Ledger> made = report::Ledger::create();
  if (!made) made = report::Ledger::create_private();
  if (!made) {
    print("there will be no report: no memory for the counters: %s", made.error().c_str());
    return false;
  }
  the_ledger() = std::move(made).value();
  is_readable = true;
  ledger().header().waits = uncounted_waits;
  wait_figures.store(&ledger().header().waits, std::memory_order_release);
  (void)pthread_atfork(nullptr, nullptr, &forget_in_child);
  detail::observing.fetch_or(detail::kCounts, std::memory_order_release);
  return true;
}

void publish_messages() {
  if (counting()) detail::observing.fetch_or(detail::kShowsMessages, std::memory_order_release);
}

void stop_counting() {
  constexpr unsigned kOver = detail::kCounts | detail::kShowsMessages;
  wait_figures.store(&uncounted_waits, std::memory_order_release);
  detail::observing.fetch_and(static_cast<std::uint8_t>(~kOver), std::memory_order_release);
}

report::Ledger& ledger() {
  return *the_ledger();
}

report::LedgerRow* new_phase_row(std::string_view name) {
  const std::unique_lock lock = lock_ledger();
  LedgerRow* row = add_ledger_row(lock, report::kLedgerRows);
  if (row == nullptr) return nullptr;
  row->group = report::kPhases;
  report::set_text(row->name, name);
  return row;
}

report::LedgerRow* new_site_row(CallKind kind, bool waits, const CallPlaces& places) {
  const std::unique_lock lock = lock_ledger();
  LedgerRow* row = sites_made < report::kMostSites ? add_ledger_row(lock, report::kLedgerRows) : nullptr;
  if (row == nullptr) return nullptr;
  ++sites_made;
  row->group = report::kSites;
  row->kind = static_cast<std::uint32_t>(index_of(kind));
  row->waits = waits ? 1 : 0;
  row->site = places.site;
  row->caller = places.caller;
  return row;
}

std::uint32_t object_number(std::string_view path) {
  if (path.empty()) return 0;
  const std::scoped_lock lock(ledger_mutex);
  std::uint32_t number = 0;
  for (auto& object : ledger().header().objects) {
    ++number;
    if (object[0] == '\0') report::set_text(object, path);
    if (report::text_in(object) == path.substr(0, report::kTextBytes - 1)) return number;
  }
  return 0;
}

bool read_rows(const std::function<void(const LedgerRow&)>& look) {
  const std::scoped_lock lock(ledger_mutex);
  if (!is_readable) return false;
  for (std::uint32_t i = 0; i < ledger().header().row_count; ++i) {
    if (ledger().row(i).is_call()) look(ledger().row(i));
  }
  return true;
}

RowChange::RowChange(LedgerRow& row)
    : lock_(ledger_mutex), row_(row), phase_(row.is_call() ? current_phase() : nullptr) {
  if (phase_ != nullptr) before_ = sums_of(row);
}

RowChange::Sums RowChange::sums_of(const LedgerRow& row) {
  return {row.calls, row.offloaded, row.measured, row.bytes, row.time_ns()};
}

void RowChange::add_to_phase() {
  // The phase may not end: a call's time is part of the phase's.
  phase_->inside_ns += take_phase_time_ns();
  const Sums after = sums_of(row_);
  phase_->calls += after.calls - before_.calls;
  phase_->offloaded += after.offloaded - before_.offloaded;
  phase_->measured += after.measured - before_.measured;
  phase_->bytes += after.bytes - before_.bytes;
  phase_->call_ns += after.time_ns - before_.time_ns;
  if (!row_.is_of_meetings(ledger().header().world_size)) return;
  phase_->meetings += after.calls - before_.calls;
  phase_->meeting_ns += after.time_ns - before_.time_ns;
}

void change_header(const std::function<void(report::LedgerHeader&)>& change) {
  const std::scoped_lock lock(ledger_mutex);
  change(ledger().header());
}

void change_header_at_last(const std::function<void(report::LedgerHeader&)>& change) {
  constexpr int kTries = 1000;
  std::unique_lock lock(ledger_mutex, std::try_to_lock);
  for (int i = 0; i < kTries && !lock.owns_lock(); ++i) {
    ::sched_yield();
    (void)lock.try_lock();
  }
  change(ledger().header());
}

void add_bytes(LedgerRow& row, std::uint64_t bytes) {
  row.least_bytes = row.measured == 0 ? bytes : std::min(row.least_bytes, bytes);
  row.most_bytes = std::max(row.most_bytes, bytes);
  row.bytes += bytes;
  ++row.measured;
}

std::unique_lock<FutexLock> lock_ledger() {
  return std::unique_lock(ledger_mutex);
}

LedgerRow* add_ledger_row(const std::unique_lock<FutexLock>& /*lock*/, std::uint32_t rows) {
  std::uint32_t& used = ledger().header().row_count;
  return used < rows ? &ledger().row(used++) : nullptr;
}

LedgerRow* current_phase() {
  return counting() ? phase_row : nullptr;
}

void set_current_phase(LedgerRow* row) {
  phase_row = row;
  if (row != nullptr) phase_since_ns = monotonic_ns();
}

std::int64_t take_phase_time_ns() {
  const std::int64_t now_ns = monotonic_ns();
  return now_ns - std::exchange(phase_since_ns, now_ns);
}

}  // namespace outrigger::mpi
