// Finds where the program calls: the innermost frame outside the MPI and this library. If that frame is in a library,
// also the frame that called the library: a program may call MPI by FFTW, PETSc or a Fortran binding.
//
// The caller of a call is known without unwinding. Unwinding is only needed if the caller is in a library. It takes
// microseconds, so its result is kept with the stack's depth and the places of the return addresses that it has passed.
// While these hold the same addresses, the call comes the same way.
//
// Thread rule: any thread. Only while calls are counted (ledger_rows.hpp).
#pragma once

#include <cstdint>

#include "mpi/report/call_ways.hpp"
#include "mpi/report/ledger_rows.hpp"
#include "protocol/collective_calls.hpp"
#include "report/ledger.hpp"

namespace outrigger::mpi {

// The ledger's row for the site of a call of this kind. nullptr: too many sites.
[[nodiscard]] report::LedgerRow* site_row(CallKind kind, const CallOrigin& origin);
// The same for a completion call of such operations.
[[nodiscard]] report::LedgerRow* wait_site_row(CallKind kind, const CallOrigin& origin);

// The completion call that this thread is in: this object lives as long as it. Does nothing if nothing is counted.
class CompletionOrigin {
 public:
  explicit CompletionOrigin(const void* caller) : origin_{caller, this} {
    if (counting()) begin();
  }
  CompletionOrigin(const CompletionOrigin&) = delete;
  CompletionOrigin& operator=(const CompletionOrigin&) = delete;
  ~CompletionOrigin() {
    if (is_outer_) end();
  }

  // This thread's waiting call waits for an operation of `row`. Others see it from now on (present_call.hpp).
  static void waits_for(const report::LedgerRow& row, std::uint64_t ordinal);
  // Adds time to the site's row for operations of `row`, if this thread is in a completion call of the program.
  static void add_wait(const report::LedgerRow& row, std::int64_t spent_ns);
  // The site's row for operations of this kind; nullptr: too many sites, or this thread is in no such call.
  [[nodiscard]] static report::LedgerRow* row_for(CallKind kind);
  // True if the call's time has been counted already: a call on several requests counts for one of them.
  [[nodiscard]] static bool has_counted();
  // True if this thread is in a completion call.
  [[nodiscard]] static bool is_here();

 private:
  void begin();
  void end() const;
  [[nodiscard]] report::LedgerRow* site_of(const report::LedgerRow& row);

  CallOrigin origin_;
  bool is_outer_ = false;
  bool has_counted_ = false;
  bool entered_ = false;
  std::uint32_t kind_ = 0;  // of the operations that site_ is for
  report::LedgerRow* site_ = nullptr;
};

// The MPI_Start or MPI_Startall that this thread is in.
class StartOrigin {
 public:
  explicit StartOrigin(const void* caller) : origin_{caller, this} {
    if (counting()) begin();
  }
  StartOrigin(const StartOrigin&) = delete;
  StartOrigin& operator=(const StartOrigin&) = delete;
  ~StartOrigin() {
    if (begun_) end();
  }

  // The row of the site that starts operations of `row`; nullptr if this thread starts none.
  [[nodiscard]] static report::LedgerRow* site_of(const report::LedgerRow& row);

 private:
  void begin();
  void end() const;

  CallOrigin origin_;
  StartOrigin* outer_ = nullptr;
  bool begun_ = false;
};

}  // namespace outrigger::mpi
