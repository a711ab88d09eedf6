// Filling in a rank's ledger at its beginning and end, and writing what ledgers say.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "mpi/native/abi.hpp"
#include "report/summary.hpp"

namespace outrigger::mpi {

// Where the program's working directory is now.
[[nodiscard]] std::string absolute_path(const std::string& path);

// What every ledger's header has from the beginning on.
struct LedgerStart {
  std::uint32_t world_rank = 0;
  std::uint32_t world_size = 0;
  std::string path;
  std::string native_because;
};
void begin_ledger(const LedgerStart& start);
// The rank's end is now.
void end_ledger();

// All ranks' ledgers put together, on rank 0 of the communicator; of this rank alone with MPI_COMM_NULL.
[[nodiscard]] report::Summary gather_summary(MPI_Comm comm);

// What is known before anything is counted: should nobody be left to write more.
void write_beginning();
// To the report's path, as a table or JSON. `last`: the job has ended. Says so where it cannot be written.
void write_summary(const report::Summary& summary, bool last);

}  // namespace outrigger::mpi
