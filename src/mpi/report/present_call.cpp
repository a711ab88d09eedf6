#include "mpi/report/present_call.hpp"

#include <atomic>

#include "mpi/report/ledger_rows.hpp"
#include "mpi/report/thread_entries.hpp"

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

[[gnu::noinline]] void find_place() {
  published = {take_entry(ledger().header().present), &ledger().row(0), true};
}

std::uint32_t row_number(const LedgerRow* row) {
  return row == nullptr ? 0 : static_cast<std::uint32_t>(row - published.rows) + 1;
}

}  // namespace

void enter_call(const EnteredCall& call, std::int64_t now_ns) {
  if (!published.looked) [[unlikely]]
    find_place();
  message_entry().forget();
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

bool is_entered() {
  return published.call != nullptr && published.call->inside != 0;
}

std::uint64_t next_ordinal(const LedgerRow& row) {
  return std::atomic_ref(const_cast<std::uint64_t&>(row.calls)).load(std::memory_order_relaxed) + 1;
}

}  // namespace outrigger::mpi
