#include "mpi/api/counter_values.hpp"

#include "mpi/report/counting.hpp"
#include "report/counters.hpp"

namespace outrigger::mpi {
namespace {

using report::LedgerRow;

template <class Fits>
std::optional<std::uint64_t> sum_of_rows(std::size_t counter, const Fits& fits) {
  const report::Counter& counted = report::counters()[counter];
  std::uint64_t value = 0;
  const bool known = read_rows([&](const LedgerRow& row) {
    if (fits(row)) value += counted.value(row);
  });
  return known ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> counter_value(std::size_t counter) {
  return sum_of_rows(counter, [](const LedgerRow& /*row*/) { return true; });
}

std::optional<std::uint64_t> counter_value(std::size_t counter, MPI_Comm comm, const std::optional<CallKind>& kind) {
  if (!counting()) return std::nullopt;
  const GroupId group = record_of(comm).id;
  if (group == report::kOtherCommunicators || group == report::kGroupsOfOne) return std::nullopt;
  return sum_of_rows(
      counter, [&](const LedgerRow& row) { return row.group == group && (!kind || row.kind == index_of(*kind)); });
}

}  // namespace outrigger::mpi
