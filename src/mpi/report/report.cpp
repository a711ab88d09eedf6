#include "mpi/report/report.hpp"

#include <algorithm>
#include <ctime>
#include <optional>
#include <utility>

#include "base/clock.hpp"
#include "mpi/collectives/offloaded_collective.hpp"
#include "mpi/job/job.hpp"
#include "mpi/report/call_count.hpp"
#include "mpi/report/call_sites.hpp"
#include "mpi/report/native_requests.hpp"

namespace outrigger::mpi {
namespace {

std::int64_t ns_on(clockid_t clock) {
  return time_on(clock).count();
}

// The part of the operation that overlapped with the program's work. A DPU does not report the end, so there it is the
// time of detection.
std::int64_t hidden_ns(const Operation& operation, const report::LedgerRow& row,
                       const client::OperationResult& result) {
  if (call_kind_at(row.kind).form == CallForm::blocking) return 0;
  const std::int64_t done_ns = result.done_ns != 0 ? static_cast<std::int64_t>(result.done_ns) : monotonic_ns();
  const std::int64_t until_ns = operation.hides_until_ns != 0 ? std::min(operation.hides_until_ns, done_ns) : done_ns;
  return std::max<std::int64_t>(0, until_ns - operation.hides_from_ns.load(std::memory_order_relaxed));
}

}  // namespace

void count_native(NativeReason reason) {
  if (CallCount* call = CallCount::current()) call->stays_native(reason);
}

OffloadedStart::OffloadedStart(Operation& operation) {
  operation.counted = nullptr;
  if (tracing()) traced_.emplace(operation.request);
  if (!counting()) return;
  const std::optional<WatchedStart> watched = offloaded_start(operation.request);
  if (!watched) return;
  operation.counted = watched->row;
  operation_ = &operation;
  bytes_ = watched->bytes;
  began_ns_ = monotonic_ns();
}

void OffloadedStart::end() {
  if (!counting()) return;
  const std::int64_t spent = monotonic_ns() - began_ns_;
  const auto change = [&](report::LedgerRow& row) {
    ++row.calls;
    ++row.offloaded;
    row.call_ns += spent;
    add_bytes(row, bytes_);
  };
  change_row(*operation_->counted, change);
  if (report::LedgerRow* site = StartOrigin::site_of(*operation_->counted)) change_row(*site, change);
}

void count_post(Operation& operation) {
  if (!counting()) return;
  CallCount* call = CallCount::current();
  if (operation.persistent == nullptr && call != nullptr) operation.counted = &call->offloaded_by(operation);
  if (operation.counted == nullptr) return;
  operation.hides_until_ns = 0;
  count_start_ended(operation, monotonic_ns());  // another thread may complete it before the call has ended
  change_row(*operation.counted, [&](report::LedgerRow& row) {
    operation.ordinal = row.calls + 1;
    ++row.algorithms[index_of(operation.asked.algorithm)];
    if (operation.send.staged()) row.reached[report::kBounceBytes] += operation.send.total_bytes();
    if (operation.receive.staged()) row.reached[report::kBounceBytes] += operation.receive.total_bytes();
  });
}

void count_posted_by_ranks(Operation& operation) {
  CallCount* call = CallCount::current();
  if (call == nullptr) return;
  call->done_by_ranks(0);
  if (!counting()) return;
  report::LedgerRow& row = call->row();
  operation.counted = &row;
  change_row(row, [&](const report::LedgerRow& counted) { operation.ordinal = counted.calls + 1; });
}

void count_start_ended(Operation& operation, std::int64_t now_ns) {
  operation.posted_ns = now_ns;
  operation.hides_from_ns.store(now_ns, std::memory_order_relaxed);
}

void count_yield(Operation& operation, std::int64_t spent_ns, std::int64_t now_ns) {
  if (operation.counted == nullptr || operation.posted_ns == 0) return;
  count_start_ended(operation, now_ns);
  const auto change = [spent_ns](report::LedgerRow& row) {
    row.call_ns += spent_ns;
    row.post_ns += spent_ns;
  };
  change_row(*operation.counted, change);
  if (report::LedgerRow* site = StartOrigin::site_of(*operation.counted)) change_row(*site, change);
}

void count_wait(Operation& operation) {
  if (operation.posted_ns == 0 || !counting() || CallCount::current() != nullptr) return;
  operation.hides_until_ns = monotonic_ns();
  const std::int64_t before_ns = operation.hides_until_ns - std::exchange(operation.posted_ns, 0);
  change_row(*operation.counted, [&](report::LedgerRow& row) {
    ++row.waited;
    row.before_wait_ns += before_ns;
  });
}

void count_completion(const Operation& operation, const client::OperationResult& result) {
  if (operation.counted == nullptr || !counting()) return;
  change_row(*operation.counted, [&](report::LedgerRow& row) {
    for (std::size_t i = 0; i < kReachCount; ++i) row.reached[i] += result.bytes_by_reach[i];
    if (operation.asked.own_block_done) {
      row.reached[report::kOwnBytes] += pair_with(operation.receive, operation.comm->me().value()).bytes;
    }
    row.late += result.late_announcements;
    row.hidden_ns += hidden_ns(operation, row, result);
    row.late_ns += static_cast<std::int64_t>(result.late_ns);
    row.most_late_ns = std::max(row.most_late_ns, static_cast<std::int64_t>(result.late_ns));
  });
}

void CallTimer::begin() {
  on_ = true;
  wall_ns_ = monotonic_ns();
  cpu_ns_ = ns_on(CLOCK_THREAD_CPUTIME_ID);
}

void CallTimer::assign(const Operation& operation) {
  if (kind_ != Kind::post) {
    if (on_) row_ = operation.counted;
  } else {
    begin();
    if (const CallCount* call = CallCount::current()) wall_ns_ = call->began_ns();
  }
}

void CallTimer::end() {
  if (!counting()) return;
  const std::int64_t wall = monotonic_ns() - wall_ns_;
  const std::int64_t cpu = ns_on(CLOCK_THREAD_CPUTIME_ID) - cpu_ns_;
  const CallCount* call = CallCount::current();
  if (kind_ == Kind::post && call != nullptr) row_ = call->blocking_row();
  change_header([&](report::LedgerHeader& header) { header.cpu_in_calls_ns += cpu; });
  if (row_ == nullptr) return;
  change_row(*row_, [&](report::LedgerRow& row) {
    (kind_ == Kind::post || kind_ == Kind::start ? row.post_ns : row.completion_ns) += wall;
    if (kind_ != Kind::test) return;
    ++row.tests;
    row.test_ns += wall;
  });
  if (kind_ == Kind::completion || kind_ == Kind::test) CompletionOrigin::add_wait(*row_, wall);
}

}  // namespace outrigger::mpi
