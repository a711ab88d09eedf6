// The figures of a ledger's rows by name, for programs and tools that read them while a job runs (outrigger.h, MPI_T).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/ledger.hpp"

namespace outrigger::report {

enum class CounterUnit : std::uint8_t { calls, operations, bytes, nanoseconds, arrivals };
[[nodiscard]] const char* name_of(CounterUnit unit);

struct Counter {
  std::string name;  // "outrigger_native_small_blocks"
  CounterUnit unit = CounterUnit::calls;
  std::string description;
  // The value in one row; counts never decrease. `which`: index in an array of the row.
  std::uint64_t (*of)(const LedgerRow& row, std::size_t which) = nullptr;
  std::size_t which = 0;

  [[nodiscard]] std::uint64_t value(const LedgerRow& row) const { return of(row, which); }
};

// All counters; the order is fixed per version. Made at the first call, valid until the process ends.
[[nodiscard]] const std::vector<Counter>& counters();
[[nodiscard]] std::optional<std::size_t> find_counter(std::string_view name);

}  // namespace outrigger::report
