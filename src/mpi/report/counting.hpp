// This rank's ledger (report/ledger.hpp) while the program runs. Does nothing unless the user asked for a report
// (OUTRIGGER_REPORT) or a trace (OUTRIGGER_TRACE), or the program or a tool for counters (on_demand.hpp).
//
// Thread rule: any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>

#include "base/futex_lock.hpp"
#include "base/tick_clock.hpp"
#include "mpi/native/abi.hpp"
#include "mpi/native/real.hpp"
#include "mpi/trace/traced_call.hpp"
#include "protocol/collective_calls.hpp"
#include "protocol/ids.hpp"
#include "report/ledger.hpp"

namespace outrigger::mpi {

struct Operation;
class CommState;

namespace detail {
inline constexpr std::uint8_t kCounts = 1U << 0;
inline constexpr std::uint8_t kTraces = 1U << 1;
extern constinit std::atomic<std::uint8_t> observing;
}  // namespace detail

// True if calls are counted or traced. The only check of calls when they are not.
[[nodiscard]] inline bool observing() {
  return detail::observing.load(std::memory_order_relaxed) != 0;
}
// True if counting was requested and there is a ledger.
[[nodiscard]] inline bool counting() {
  return (detail::observing.load(std::memory_order_relaxed) & detail::kCounts) != 0;
}
// True if a trace was requested and there is memory for it (mpi/trace).
[[nodiscard]] inline bool tracing() {
  return (detail::observing.load(std::memory_order_relaxed) & detail::kTraces) != 0;
}

// CLOCK_MONOTONIC, as in ledgers.
[[nodiscard]] inline std::int64_t monotonic_ns() {
  return TickClock::now_ns();
}

// A communicator as the ledger knows it. Lives as long as the process.
struct CommRecord {
  GroupId id;
  std::uint32_t size = 0;  // 0: of several or unknown communicators
  std::array<char, report::kNameBytes> name{};
  std::array<std::atomic<std::uint16_t>, kCallKinds> rows{};  // index in the ledger plus 1; 0: none yet
  std::atomic<bool> traced = false;                           // the trace knows it
};

// Record of a communicator that the library knows; nullptr if nothing is counted or traced.
[[nodiscard]] CommRecord* report_communicator(GroupId id, std::uint32_t size);
// Record of any other valid communicator.
[[nodiscard]] CommRecord& record_of(MPI_Comm comm);

// A row for a phase of the program; nullptr at the limit, or without a ledger.
inline constexpr std::size_t kMaxPhases = 256;
[[nodiscard]] report::LedgerRow* new_phase_row(std::string_view name);
// Calls `look` with each row of calls, under the lock. False: nothing has been counted, or this is a forked child.
[[nodiscard]] bool read_rows(const std::function<void(const report::LedgerRow&)>& look);

// Makes the ledger. False: no memory, which a line reports.
[[nodiscard]] bool start_counting();
void stop_counting();
// Only for start_counting() and the end of a process if nothing is counted.
[[nodiscard]] report::Ledger& ledger();
// Holds the lock during its life. Changes of the row are also added to this thread's current phase (phases.hpp).
class RowChange {
 public:
  explicit RowChange(report::LedgerRow& row);
  RowChange(const RowChange&) = delete;
  RowChange& operator=(const RowChange&) = delete;
  ~RowChange() {
    if (phase_ != nullptr) [[unlikely]]
      add_to_phase();
  }

 private:
  struct Sums {
    std::uint64_t calls;
    std::uint64_t offloaded;
    std::uint64_t measured;
    std::uint64_t bytes;
    std::int64_t time_ns;
  };
  [[nodiscard]] static Sums sums_of(const report::LedgerRow& row);
  void add_to_phase();

  std::scoped_lock<FutexLock> lock_;
  report::LedgerRow& row_;
  report::LedgerRow* phase_;
  Sums before_;  // in a phase
};
// Calls `change` with the ledger's row, or header, under the lock.
template <class Change>
void change_row(report::LedgerRow& row, const Change& change) {
  const RowChange scope(row);
  change(row);
}
void change_header(const std::function<void(report::LedgerHeader&)>& change);
// The same at the end of the process, maybe in the middle of a count: continues without the lock if that stays held.
void change_header_at_last(const std::function<void(report::LedgerHeader&)>& change);
// The row of this record and kind. Its address is constant.
[[nodiscard]] report::LedgerRow& row_of(CommRecord& record, CallKind kind);
// The same of a valid communicator.
[[nodiscard]] report::LedgerRow& row_on(MPI_Comm comm, CallKind kind);

// One collective call by the program. It is counted at its end; until then the collective's own code finds it by
// current().
class CallCount {
 public:
  CallCount(CallKind kind, std::span<const Word> words, bool large_counts);
  CallCount(const CallCount&) = delete;
  CallCount& operator=(const CallCount&) = delete;
  ~CallCount();

  // This thread's; nullptr if it is in none.
  [[nodiscard]] static CallCount* current();

  void stays_native(report::NativeReason reason) { reason_ = reason; }
  // The ranks do it by themselves.
  void done_by_ranks() { by_ranks_ = true; }
  // It is offloaded: the row is known from now on.
  report::LedgerRow& offloaded_by(Operation& operation);
  // A blocking form that is offloaded; else nullptr: a nonblocking one counts its whole call by itself.
  [[nodiscard]] report::LedgerRow* blocking_row() const { return posted_operation_ == nullptr ? offloaded_ : nullptr; }
  [[nodiscard]] std::int64_t began_ns() const { return began_ns_; }
  // Call it before the destructor, with the call's result.
  void ended(int code);
  // It is an operation of service processes.
  void posted(const TracedPost& post) { post_ = post; }

 private:
  [[nodiscard]] report::NativeReason reason() const;
  void trace(int code) const;
  void count_call(report::LedgerRow& row) const;
  void count(report::LedgerRow& row, int code, std::int64_t ended_ns) const;
  void watch_request(report::LedgerRow& row, std::int64_t ended_ns) const;

  CallKind kind_;
  std::span<const Word> words_;
  bool large_counts_;
  report::NativeReason reason_ = report::NativeReason::none;
  report::LedgerRow* offloaded_ = nullptr;
  bool by_ranks_ = false;
  Operation* posted_operation_ = nullptr;  // of a nonblocking form
  std::optional<TracedPost> post_;
  CallCount* outer_;
  std::int64_t began_ns_;
};

// Adds one call's bytes to its row.
void add_bytes(report::LedgerRow& row, std::uint64_t bytes);
// Bytes of the call's valid arguments: report::LedgerRow::bytes.
[[nodiscard]] std::uint64_t bytes_of_call(CollectiveCall call, std::span<const Word> words, bool large_counts);

}  // namespace outrigger::mpi
