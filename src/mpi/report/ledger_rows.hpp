// This rank's ledger (report/ledger.hpp) while the program runs. Does nothing unless the user asked for a report
// (OUTRIGGER_REPORT) or a trace (OUTRIGGER_TRACE), or the program or a tool for counters (on_demand.hpp).
//
// Thread rule: any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string_view>

#include "base/futex_lock.hpp"
#include "base/tick_clock.hpp"
#include "protocol/collective_calls.hpp"
#include "report/ledger.hpp"

namespace outrigger::mpi {

namespace detail {
inline constexpr std::uint8_t kCounts = 1U << 0;
inline constexpr std::uint8_t kTraces = 1U << 1;
inline constexpr std::uint8_t kShowsMessages = 1U << 2;  // only together with kCounts
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
// True if calls with messages are published (present_message.hpp).
[[nodiscard]] inline bool publishing_messages() {
  return (detail::observing.load(std::memory_order_relaxed) & detail::kShowsMessages) != 0;
}

// CLOCK_MONOTONIC, as in ledgers.
[[nodiscard]] inline std::int64_t monotonic_ns() {
  return TickClock::now_ns();
}

// A row for a phase of the program; nullptr at the limit, or without a ledger.
inline constexpr std::size_t kMaxPhases = 256;
[[nodiscard]] report::LedgerRow* new_phase_row(std::string_view name);
// A row for calls of this kind, or waits for them, from these places; nullptr at the limit, or without a ledger.
struct CallPlaces {
  report::CodePlace site;
  report::CodePlace caller;
};
[[nodiscard]] report::LedgerRow* new_site_row(CallKind kind, bool waits, const CallPlaces& places);
// The number of this file among the ledger's objects; 0 at the limit.
[[nodiscard]] std::uint32_t object_number(std::string_view path);
// Calls `look` with each row of calls, under the lock. False: nothing has been counted, or this is a forked child.
[[nodiscard]] bool read_rows(const std::function<void(const report::LedgerRow&)>& look);

// Makes the ledger. False: no memory, which a line reports.
[[nodiscard]] bool start_counting();
void publish_messages();
void stop_counting();  // and to publish
// Only for start_counting() and the end of a process if nothing is counted.
[[nodiscard]] report::Ledger& ledger();
// Room for a row, under the lock. `rows`: as many may be there afterwards. nullptr: no room.
[[nodiscard]] std::unique_lock<FutexLock> lock_ledger();
[[nodiscard]] report::LedgerRow* add_ledger_row(const std::unique_lock<FutexLock>& lock, std::uint32_t rows);
// The row of this thread's innermost phase; nullptr if there is none, or nothing was counted when it began.
[[nodiscard]] report::LedgerRow* current_phase();
void set_current_phase(report::LedgerRow* row);
// Time of this thread in the current phase since the last call of this or of set_current_phase().
[[nodiscard]] std::int64_t take_phase_time_ns();
// Holds the lock during its life. Changes of the row are also added to this thread's current phase.
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
// Adds one call's bytes to its row.
void add_bytes(report::LedgerRow& row, std::uint64_t bytes);

}  // namespace outrigger::mpi
