#include "mpi/report/present_call.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

#include "mpi/report/call_count.hpp"
#include "mpi/report/call_sites.hpp"
#include "mpi/report/ledger_rows.hpp"
#include "mpi/report/present_message.hpp"

namespace outrigger::mpi {
namespace {

using report::LedgerRow;
using report::PresentCall;

// This thread's entry, and the rows' beginning, from which they are numbered.
struct PublishedCall {
  PresentCall* call = nullptr;
  const LedgerRow* rows = nullptr;
  bool looked = false;  // for an entry
};
[[gnu::tls_model("initial-exec")]] constinit thread_local PublishedCall published;

template <class Value>
void publish(Value& place, Value value) {
  std::atomic_ref(place).store(value, std::memory_order_relaxed);
}

// A free entry, or one of a thread that has ended.
[[gnu::noinline]] void find_place() {
  published.looked = true;
  const std::unique_lock lock = lock_ledger();
  for (PresentCall& call : ledger().header().present) {
    if (call.thread != 0 && thread_lives(call.thread)) continue;
    publish(call.inside, std::uint32_t{0});
    publish(call.thread, static_cast<std::uint32_t>(::syscall(SYS_gettid)));
    published = {&call, &ledger().row(0), true};
    return;
  }
}

std::uint32_t row_number(const LedgerRow* row) {
  return row == nullptr ? 0 : static_cast<std::uint32_t>(row - published.rows) + 1;
}

}  // namespace

bool thread_lives(std::uint32_t thread) {
  return ::syscall(SYS_tgkill, ::getpid(), thread, 0) == 0;
}

void enter_call(const EnteredCall& call, std::int64_t now_ns) {
  if (!published.looked) [[unlikely]]
    find_place();
  forget_message();
  if (published.call == nullptr) return;
  PresentCall& present = *published.call;
  publish(present.since_ns, now_ns);
  publish(present.ordinal, call.ordinal);
  publish(present.site, row_number(call.site));
  publish(present.waits, std::uint32_t{call.waits ? 1U : 0U});
  publish(present.row, row_number(&call.row));
  publish(present.inside, std::uint32_t{1});
}

void leave_call(std::int64_t now_ns) {
  if (published.call == nullptr || !counting()) return;
  publish(published.call->inside, std::uint32_t{0});
  publish(published.call->since_ns, now_ns);
}

void forget_lost_call() {
  if (published.call == nullptr || published.call->inside == 0) return;
  if (CallCount::current() == nullptr && !CompletionOrigin::is_here()) leave_call(monotonic_ns());
}

std::uint64_t next_ordinal(const LedgerRow& row) {
  return std::atomic_ref(const_cast<std::uint64_t&>(row.calls)).load(std::memory_order_relaxed) + 1;
}

}  // namespace outrigger::mpi
