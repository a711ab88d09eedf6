// Rows of the ledger by communicator (ledger_rows.hpp).
//
// Thread rule: any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "mpi/native/abi.hpp"
#include "mpi/report/ledger_rows.hpp"
#include "protocol/collective_calls.hpp"
#include "protocol/ids.hpp"
#include "report/ledger.hpp"

namespace outrigger::mpi {

// A communicator as the ledger knows it. Lives as long as the process.
struct CommRecord {
  GroupId id;
  std::uint32_t size = 0;  // 0: of several or unknown communicators
  report::Members members;
  std::array<char, report::kNameBytes> name{};
  std::array<std::atomic<std::uint16_t>, kCallKinds> rows{};  // index in the ledger plus 1; 0: none yet
  std::atomic<bool> traced = false;                           // the trace knows it
};

// Record of a communicator that the library knows; nullptr if nothing is counted or traced.
[[nodiscard]] CommRecord* report_communicator(GroupId id, std::uint32_t size, report::Members members = {});
// Record of any other valid communicator.
[[nodiscard]] CommRecord& record_of(MPI_Comm comm);
// Record of those beyond the limit.
[[nodiscard]] CommRecord& other_communicators();
// Sets the name once, from the communicator.
void name_record(CommRecord& record, MPI_Comm comm);

// The row of this record and kind. Its address is constant.
[[nodiscard]] report::LedgerRow& row_of(CommRecord& record, CallKind kind);
// The same of a valid communicator.
[[nodiscard]] report::LedgerRow& row_on(MPI_Comm comm, CallKind kind);
// The same before the MPI has accepted the communicator: that of the others if the library does not know it.
[[nodiscard]] report::LedgerRow& row_before_call(MPI_Comm comm, CallKind kind);

}  // namespace outrigger::mpi
