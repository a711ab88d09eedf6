#include "mpi/report/native_requests.hpp"

#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mpi/job/job.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/report/call_sites.hpp"
#include "mpi/report/present_call.hpp"
#include "mpi/report/report.hpp"

namespace outrigger::mpi {
namespace {

struct Entry {
  report::LedgerRow* row = nullptr;
  std::optional<std::uint64_t> bytes;  // of a persistent one
  NativeReason why = NativeReason::none;
  std::int64_t started_ns = 0;  // 0: not active, or already waited for
  bool active = false;
  std::uint64_t ordinal = 0;  // report::PresentCall
};

constinit std::mutex entries_mutex;

using Entries = std::unordered_map<std::uint64_t, Entry>;
Entries& entries() {
  static auto* all = new Entries;
  return *all;
}

// Nodes of removed entries, for reuse.
std::vector<Entries::node_type>& spare_nodes() {
  static auto* all = new std::vector<Entries::node_type>;
  return *all;
}

// Both under the lock.
void keep(std::uint64_t key, const Entry& entry) {
  std::vector<Entries::node_type>& spare = spare_nodes();
  if (spare.empty() || entries().contains(key)) {
    entries()[key] = entry;
    return;
  }
  Entries::node_type node = std::move(spare.back());
  spare.pop_back();
  node.key() = key;
  node.mapped() = entry;
  entries().insert(std::move(node));
}
void drop(Entries::const_iterator entry) {
  constexpr std::size_t kMostSpare = 64;
  Entries::node_type node = entries().extract(entry);
  if (spare_nodes().size() < kMostSpare) spare_nodes().push_back(std::move(node));
}

// Under the lock.
void publish_count() {
  const auto count = static_cast<std::uint32_t>(entries().size() + (tracing() ? 1 : 0));
  const std::uint32_t publishes = publishing_messages() ? detail::kPublishesWaits : 0;
  detail::watched_requests.store(count | publishes, std::memory_order_relaxed);
}

trace::CompletionCall completion_call(Call call) {
  using enum trace::CompletionCall;
  switch (call) {
    case Call::Waitall: return waitall;
    case Call::Waitany: return waitany;
    case Call::Waitsome: return waitsome;
    case Call::Test: return test;
    case Call::Testall: return testall;
    case Call::Testany: return testany;
    case Call::Testsome: return testsome;
    default: return wait;
  }
}

// Outputs follow the requests.
CompletionOutputs outputs_of(Call call, std::span<const Word> words) {
  const auto place = [&](std::size_t index) { return argument<const int*>(words[index]); };
  CompletionOutputs outputs;
  if (call == Call::Test) outputs.flag = place(1);
  if (call == Call::Testall) outputs.flag = place(2);
  if (call == Call::Waitany || call == Call::Testany) outputs.index = place(2);
  if (call == Call::Testany) outputs.flag = place(3);
  if (call == Call::Waitsome || call == Call::Testsome) {
    outputs.count = place(2);
    outputs.indices = place(3);
  }
  return outputs;
}

void watch(MPI_Request request, const Entry& entry) {
  if (request == constants().request_null) return;
  const std::scoped_lock lock(entries_mutex);
  keep(handle_key(request), entry);
  publish_count();
}

}  // namespace

namespace detail {
constinit std::atomic<std::uint32_t> watched_requests = 0;
}

void watch_all_completions() {
  const std::scoped_lock lock(entries_mutex);
  publish_count();
}

void watch_request(const CallCount& call, report::LedgerRow& row) {
  if (call.kind().form == CallForm::nonblocking) {
    const std::uint64_t ordinal = next_ordinal(row) - 1;  // it has been counted
    return watch(call.request(), Entry{&row, std::nullopt, NativeReason::none, call.ended_ns(), true, ordinal});
  }
  watch(call.request(), Entry{&row, call.bytes(), call.reason(), 0, false});
}

void forget_native_request(MPI_Request request) {
  if (tracing()) forget_traced_request(request);
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
    found->second.ordinal = next_ordinal(*found->second.row);
    if (why == NativeReason::none) why = found->second.why;
    started = WatchedStart{found->second.row, *found->second.bytes};
  }
  const auto change = [&](report::LedgerRow& row) {
    ++row.calls;
    ++row.native[static_cast<std::size_t>(why)];
    row.call_ns += nanoseconds;
    add_bytes(row, started.bytes);
  };
  change_row(*started.row, change);
  if (report::LedgerRow* site = StartOrigin::site_of(*started.row)) change_row(*site, change);
}

std::optional<WatchedStart> offloaded_start(MPI_Request request) {
  const std::scoped_lock lock(entries_mutex);
  const auto found = entries().find(handle_key(request));
  if (found == entries().end() || !found->second.bytes) return std::nullopt;
  found->second.active = false;
  return WatchedStart{found->second.row, *found->second.bytes};
}

void TimedCompletion::begin(const CallSite& site, Call call, std::span<const Word> words) {
  const bool one = call == Call::Wait || call == Call::Test;
  const auto* requests = argument<const MPI_Request*>(words[one ? 0 : 1]);
  const int count = one ? 1 : argument<int>(words[0]);
  if (!observing() || requests == nullptr || count <= 0) return;
  tests_ = call == Call::Test || call == Call::Testall || call == Call::Testany || call == Call::Testsome;
  if (tracing()) {
    traced_ = new (room_.data()) TracedCompletion(completion_call(call), requests, count, outputs_of(call, words));
    if (!traced_->watches() && site.inside_mpi()) std::destroy_at(std::exchange(traced_, nullptr));  // its own requests
  }
  if (counting()) begin_counting(requests, count);
  active_ = traced_ != nullptr || row_ != nullptr;
}

void TimedCompletion::begin_counting(const MPI_Request* requests, int count) {
  find_watched(requests, count);
  if (row_ == nullptr) return;
  // Its place in the code may take long to find.
  const Watched& last = watched_[watched_.size() - 1];
  if (!tests_) CompletionOrigin::waits_for(*last.row, last.ordinal);
  began_ns_ = monotonic_ns();
}

void TimedCompletion::find_watched(const MPI_Request* requests, int count) {
  const std::scoped_lock lock(entries_mutex);
  for (int i = 0; i < count; ++i) {
    const auto found = entries().find(handle_key(requests[i]));
    if (found == entries().end() || !found->second.active) continue;
    if (row_ == nullptr) row_ = found->second.row;
    const std::int64_t started_ns = tests_ ? 0 : std::exchange(found->second.started_ns, 0);
    watched_.push_back({requests + i, requests[i], found->second.row, started_ns, found->second.ordinal});
  }
}

void TimedCompletion::end() {
  if (traced_ != nullptr) {
    if (tracing()) traced_->end();
    std::destroy_at(traced_);
  }
  if (row_ != nullptr) end_counting();
}

void TimedCompletion::end_counting() {
  const std::int64_t spent = monotonic_ns() - began_ns_;
  if (!counting()) return;
  const auto count_wait = [&](report::LedgerRow& counted, const Watched& watched) {
    if (watched.started_ns == 0) return;
    ++counted.waited;
    counted.before_wait_ns += began_ns_ - watched.started_ns;
  };
  const bool is_first = !CompletionOrigin::has_counted();
  change_row(*row_, [&](report::LedgerRow& counted) {
    count_wait(counted, watched_[0]);
    if (!is_first) return;
    counted.wait_ns += spent;
    if (!tests_) return;
    ++counted.tests;
    counted.test_ns += spent;
  });
  if (is_first) CompletionOrigin::add_wait(*row_, spent);
  for (std::size_t i = 1; i < watched_.size(); ++i) {
    change_row(*watched_[i].row, [&](report::LedgerRow& counted) { count_wait(counted, watched_[i]); });
  }
  const std::scoped_lock lock(entries_mutex);
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    const Watched& watched = watched_[i];
    const auto found = entries().find(handle_key(watched.request));
    if (found == entries().end()) continue;
    // A request is gone when it has been collected. A persistent one stays, also after an unsuccessful test.
    if (*watched.place != watched.request) drop(found);
  }
  publish_count();
}

}  // namespace outrigger::mpi
