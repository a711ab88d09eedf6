// Fills in a rank's ledger at its beginning and end, and writes summaries of ledgers.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "mpi/native/abi.hpp"
#include "report/summary.hpp"

namespace outrigger::mpi {

// Relative to the program's present working directory.
[[nodiscard]] std::string absolute_path(const std::string& path);

// Initial header fields of every ledger.
struct LedgerStart {
  std::uint32_t world_rank = 0;
  std::uint32_t world_size = 0;
  std::string path;
  std::string native_because;
};
void begin_ledger(const LedgerStart& start);
// Records the rank's end.
void end_ledger();

// All ranks' ledgers combined, on rank 0 of the communicator; only this rank's with MPI_COMM_NULL.
[[nodiscard]] report::Summary gather_summary(MPI_Comm comm);

// Writes what is known before anything is counted, in case no rank is left to write more.
void write_beginning();
// Writes to the report's path, as a table or JSON. `last`: the job has ended. Prints the reason of a failure.
void write_summary(const report::Summary& summary, bool last);

}  // namespace outrigger::mpi
