// Our performance variables (MPI_T): each counter of report/counters.hpp twice, for the whole process and for a
// communicator.
#pragma once

#include <cstddef>
#include <string>

#include "mpi/tool/indices.hpp"
#include "report/counters.hpp"

namespace outrigger::mpi {

struct PvarRow {
  const report::Counter* counter = nullptr;
  std::size_t place = 0;  // index of the counter
  bool of_communicator = false;

  [[nodiscard]] bool is_time() const { return counter->unit == report::CounterUnit::nanoseconds; }
  [[nodiscard]] std::string name() const;
  [[nodiscard]] std::string description() const;
};

[[nodiscard]] int pvar_count();
[[nodiscard]] PvarRow pvar_at(int place);

[[nodiscard]] Indices& pvar_indices();

}  // namespace outrigger::mpi
