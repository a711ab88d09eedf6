// Ledgers for tests: of rank `rank`, with a row for each call.
#pragma once

#include <cstdint>
#include <utility>

#include "report/ledger.hpp"

namespace outrigger::report {

inline constexpr std::int64_t kSecond = 1'000'000'000;

inline Ledger make_ledger(std::uint32_t rank, std::uint32_t ranks = 2) {
  Ledger ledger = std::move(Ledger::create()).value();
  LedgerHeader& header = ledger.header();
  header.world_rank = rank;
  header.world_size = ranks;
  header.started_ns = kSecond;
  set_text(header.mpi, "an MPI");
  set_text(header.program, "solver");
  return ledger;
}

inline LedgerRow& add_row(Ledger& ledger, CallKind kind, std::uint64_t calls) {
  LedgerRow& row = ledger.row(ledger.header().row_count++);
  row.kind = static_cast<std::uint32_t>(index_of(kind));
  row.group = GroupId{1, 2};
  row.size = 2;
  row.calls = calls;
  set_text(row.name, "world");
  return row;
}

}  // namespace outrigger::report
