// Publishes the collective or waiting call that this thread is in (report::PresentCall), for `outrigger stuck`.
//
// Thread rule: any thread; each has an entry of its own. Only while calls are counted (ledger_rows.hpp).
#pragma once

#include <cstdint>

#include "report/ledger.hpp"

namespace outrigger::mpi {

// A call of the program. `site` may be nullptr.
struct EnteredCall {
  const report::LedgerRow& row;
  const report::LedgerRow* site = nullptr;
  bool waits = false;
  std::uint64_t ordinal = 0;
};
void enter_call(const EnteredCall& call, std::int64_t now_ns);
// Nothing happens if this thread has entered none, or its ledger is gone.
void leave_call(std::int64_t now_ns);
// True between these two.
[[nodiscard]] bool is_entered();

// Number of the next call of this row. Other threads may count calls of the same row meanwhile.
[[nodiscard]] std::uint64_t next_ordinal(const report::LedgerRow& row);

}  // namespace outrigger::mpi
