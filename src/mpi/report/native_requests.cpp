#include "mpi/report/native_requests.hpp"

#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "mpi/native/constants.hpp"
#include "mpi/report/report.hpp"
#include "mpi/start/job.hpp"

namespace outrigger::mpi {
namespace {

struct Entry {
  report::LedgerRow* row = nullptr;
  std::optional<std::uint64_t> bytes;  // of a persistent one
  NativeReason why = NativeReason::none;
  std::int64_t started_ns = 0;  // 0: it is not active, or was waited for already
  bool active = false;
};

constinit std::mutex entries_mutex;

std::unordered_map<std::uint64_t, Entry>& entries() {
  static auto* all = new std::unordered_map<std::uint64_t, Entry>;
  return *all;
}

// Under the lock.
void publish_count() {
  detail::watched_requests.store(static_cast<std::uint32_t>(entries().size()), std::memory_order_relaxed);
}

void watch(MPI_Request request, const Entry& entry) {
  if (request == constants().request_null) return;
  const std::scoped_lock lock(entries_mutex);
  entries()[handle_key(request)] = entry;
  publish_count();
}

}  // namespace

namespace detail {
constinit std::atomic<std::uint32_t> watched_requests = 0;
}

void watch_native_request(MPI_Request request, report::LedgerRow& row) {
  watch(request, Entry{&row, std::nullopt, NativeReason::none, monotonic_ns(), true});
}

void watch_persistent_request(MPI_Request request, report::LedgerRow& row, std::uint64_t bytes, NativeReason why) {
  watch(request, Entry{&row, bytes, why, 0, false});
}

void forget_native_request(MPI_Request request) {
  const std::scoped_lock lock(entries_mutex);
  entries().erase(handle_key(request));
  publish_count();
}

void count_start(MPI_Request request, std::int64_t nanoseconds, NativeReason why) {
  WatchedStart started;
  {
    const std::scoped_lock lock(entries_mutex);
    const auto found = entries().find(handle_key(request));
    if (found == entries().end() || !found->second.bytes) return;
    found->second.active = true;
    found->second.started_ns = monotonic_ns();
    if (why == NativeReason::none) why = found->second.why;
    started = WatchedStart{found->second.row, *found->second.bytes};
  }
  change_row(*started.row, [&](report::LedgerRow& row) {
    ++row.calls;
    ++row.native[static_cast<std::size_t>(why)];
    row.call_ns += nanoseconds;
    add_bytes(row, started.bytes);
  });
}

std::optional<WatchedStart> offloaded_start(MPI_Request request) {
  const std::scoped_lock lock(entries_mutex);
  const auto found = entries().find(handle_key(request));
  if (found == entries().end() || !found->second.bytes) return std::nullopt;
  found->second.active = false;
  return WatchedStart{found->second.row, *found->second.bytes};
}

void TimedCompletion::begin(const CallSite& site, const MPI_Request* requests, int count) {
  if (!counting() || requests == nullptr || count <= 0 || site.inside_mpi()) return;
  const std::scoped_lock lock(entries_mutex);
  for (int i = 0; i < count; ++i) {
    const auto found = entries().find(handle_key(requests[i]));
    if (found == entries().end() || !found->second.active) continue;
    if (row_ == nullptr) row_ = found->second.row;
    const std::int64_t started_ns = tests_ ? 0 : std::exchange(found->second.started_ns, 0);
    watched_.push_back({requests + i, requests[i], found->second.row, started_ns});
  }
  if (row_ != nullptr) began_ns_ = monotonic_ns();
}

void TimedCompletion::end() {
  const std::int64_t spent = monotonic_ns() - began_ns_;
  if (!counting()) return;
  change_row(*row_, [&](report::LedgerRow& counted) {
    counted.wait_ns += spent;
    if (!tests_) return;
    ++counted.tests;
    counted.test_ns += spent;
  });
  for (const Watched& watched : watched_) {
    if (watched.started_ns == 0) continue;
    change_row(*watched.row, [&](report::LedgerRow& counted) {
      ++counted.waited;
      counted.before_wait_ns += began_ns_ - watched.started_ns;
    });
  }
  const std::scoped_lock lock(entries_mutex);
  for (const Watched& watched : watched_) {
    const auto found = entries().find(handle_key(watched.request));
    if (found == entries().end()) continue;
    // A request is gone when it has been collected. A persistent one stays, also while a test says that it is not done.
    if (*watched.place != watched.request) entries().erase(found);
  }
  publish_count();
}

}  // namespace outrigger::mpi
