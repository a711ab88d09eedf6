// This rank's ledger (report/ledger.hpp) while the program runs: who counts what. Everything here does nothing unless
// the user asked for a report (OUTRIGGER_REPORT) or a trace (OUTRIGGER_TRACE), or the program or a tool for counters
// (on_demand.hpp).
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

// Whether the program's calls are counted or traced: the one question of calls where they are not.
[[nodiscard]] inline bool observing() {
  return detail::observing.load(std::memory_order_relaxed) != 0;
}
// Whether somebody has asked for it and there is a ledger.
[[nodiscard]] inline bool counting() {
  return (detail::observing.load(std::memory_order_relaxed) & detail::kCounts) != 0;
}
// Whether a trace was asked for and there is memory for it (mpi/trace).
[[nodiscard]] inline bool tracing() {
  return (detail::observing.load(std::memory_order_relaxed) & detail::kTraces) != 0;
}

// CLOCK_MONOTONIC, as ledgers have it.
[[nodiscard]] inline std::int64_t monotonic_ns() {
  return TickClock::now_ns();
}

// A communicator as the ledger knows it. Lives as long as the process.
struct CommRecord {
  GroupId id;
  std::uint32_t size = 0;  // 0: of several or unknown communicators
  std::array<char, report::kNameBytes> name{};
  std::array<std::atomic<std::uint16_t>, kCallKinds> rows{};  // place in the ledger and 1; 0: none yet
  std::atomic<bool> traced = false;                           // the trace knows it
};

// Of a communicator that the library knows; nullptr when nothing is counted or traced.
[[nodiscard]] CommRecord* report_communicator(GroupId id, std::uint32_t size);
// Of any other one, which is valid.
[[nodiscard]] CommRecord& record_of(MPI_Comm comm);

// A row for a phase of the program; at the limit, or without a ledger, nullptr.
inline constexpr std::size_t kMaxPhases = 256;
[[nodiscard]] report::LedgerRow* new_phase_row(std::string_view name);
// Calls `look` with each row of calls that there is, while nobody else counts. False: nothing has been counted, or this
// is a child of the process that has.
[[nodiscard]] bool read_rows(const std::function<void(const report::LedgerRow&)>& look);

// Makes the ledger. False: there is no memory for it, and a line says so.
[[nodiscard]] bool start_counting();
// Nothing is counted any more.
void stop_counting();
// Nothing but start_counting() and what ends a process calls it while nothing is counted.
[[nodiscard]] report::Ledger& ledger();
// While it lives nobody else counts. What is added to the row meanwhile is also of the phase (phases.hpp) that this
// thread is in.
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
// Calls `change` with the ledger's row, or header, while nobody else counts.
template <class Change>
void change_row(report::LedgerRow& row, const Change& change) {
  const RowChange scope(row);
  change(row);
}
void change_header(const std::function<void(report::LedgerHeader&)>& change);
// The same from where the process ends, maybe in the middle of a count: without the lock if it is not to be had soon.
void change_header_at_last(const std::function<void(report::LedgerHeader&)>& change);
// Which row that is. Stays where it is.
[[nodiscard]] report::LedgerRow& row_of(CommRecord& record, CallKind kind);
// The same of a valid communicator.
[[nodiscard]] report::LedgerRow& row_on(MPI_Comm comm, CallKind kind);

// One call of a collective by the program, from its beginning to its end. Calls are counted when they end; until then
// the collective's own code finds it by current().
class CallCount {
 public:
  CallCount(CallKind kind, std::span<const Word> words, bool large_counts);
  CallCount(const CallCount&) = delete;
  CallCount& operator=(const CallCount&) = delete;
  ~CallCount();

  // This thread's; nullptr: it is in none.
  [[nodiscard]] static CallCount* current();

  void stays_native(report::NativeReason reason) { reason_ = reason; }
  // The ranks do it by themselves.
  void done_by_ranks() { by_ranks_ = true; }
  // It is offloaded: the row is known from now on.
  report::LedgerRow& offloaded_by(Operation& operation);
  // A blocking form that is offloaded; else nullptr: a nonblocking one counts its whole call by itself.
  [[nodiscard]] report::LedgerRow* blocking_row() const { return posted_operation_ == nullptr ? offloaded_ : nullptr; }
  [[nodiscard]] std::int64_t began_ns() const { return began_ns_; }
  // Before it is destroyed, with what the call returned.
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

// Of one call, in its row.
void add_bytes(report::LedgerRow& row, std::uint64_t bytes);
// The bytes that the call's arguments name, which the MPI has found valid: report::LedgerRow::bytes.
[[nodiscard]] std::uint64_t bytes_of_call(CollectiveCall call, std::span<const Word> words, bool large_counts);

}  // namespace outrigger::mpi
