// One collective call by the program, for the report and the trace.
//
// Thread rule: any thread; a call belongs to its thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "mpi/native/entry.hpp"
#include "mpi/report/counting.hpp"
#include "mpi/trace/traced_call.hpp"
#include "protocol/collective_calls.hpp"
#include "report/ledger.hpp"

namespace outrigger::mpi {

struct Operation;

// It is counted at its end; until then the collective's own code finds it by current().
class CallCount {
 public:
  CallCount(CallKind kind, std::span<const Word> words, bool large_counts);
  CallCount(const CallCount&) = delete;
  CallCount& operator=(const CallCount&) = delete;
  ~CallCount();

  // Just before the call: its time begins. `site`: row of the calling code, if any, for count().
  void begins(report::LedgerRow* site);
  // This thread's; nullptr if it is in none.
  [[nodiscard]] static CallCount* current();

  void stays_native(report::NativeReason reason) { reason_ = reason; }
  // The ranks do it by themselves, and so save this one as much.
  void done_by_ranks(std::int64_t saved_ns) {
    by_ranks_ = true;
    saved_ns_ = saved_ns;
  }
  // It is offloaded: the row is known from now on.
  report::LedgerRow& offloaded_by(Operation& operation);
  // A blocking form that is offloaded; else nullptr: a nonblocking one counts its whole call by itself.
  [[nodiscard]] report::LedgerRow* blocking_row() const { return posted_operation_ == nullptr ? offloaded_ : nullptr; }
  [[nodiscard]] std::int64_t began_ns() const { return began_ns_; }
  // Call both before the destructor: with the call's result, and if calls are counted. The second returns the row to
  // which waits for a native request belong; else nullptr.
  void ended(int code);
  [[nodiscard]] report::LedgerRow* count();
  // Counters of the communicator and the kind of call. The communicator must be valid.
  [[nodiscard]] report::LedgerRow& row() const;
  [[nodiscard]] CallKind kind() const { return kind_; }
  [[nodiscard]] MPI_Request request() const { return *argument<const MPI_Request*>(words_.back()); }
  [[nodiscard]] std::span<const Word> words() const { return words_; }
  [[nodiscard]] bool has_large_counts() const { return large_counts_; }
  [[nodiscard]] std::uint64_t bytes() const;
  [[nodiscard]] report::NativeReason reason() const;
  [[nodiscard]] std::int64_t ended_ns() const { return ended_ns_; }
  [[nodiscard]] std::int64_t spent_ns() const { return ended_ns_ - began_ns_; }
  // Row of the calling code; nullptr if there is none.
  [[nodiscard]] report::LedgerRow* site() const { return site_; }
  // It is an operation of service processes.
  void posted(const TracedPost& post) { post_ = post; }

 private:
  [[nodiscard]] std::size_t comm_argument() const { return static_cast<std::size_t>(arguments_of(kind_.call).comm); }
  void trace(int code) const;
  void count_call(report::LedgerRow& row) const;
  void count(report::LedgerRow& row) const;

  CallKind kind_;
  std::span<const Word> words_;
  bool large_counts_;
  report::NativeReason reason_ = report::NativeReason::none;
  report::LedgerRow* offloaded_ = nullptr;
  bool by_ranks_ = false;
  std::int64_t saved_ns_ = 0;
  Operation* posted_operation_ = nullptr;  // of a nonblocking form
  std::optional<TracedPost> post_;
  report::LedgerRow* site_ = nullptr;
  bool entered_ = false;  // others see it (present_call.hpp)
  CallCount* outer_;
  std::int64_t began_ns_ = 0;
  std::int64_t ended_ns_ = 0;
  int code_ = 0;
};

// Bytes of the call's valid arguments: report::LedgerRow::bytes.
[[nodiscard]] std::uint64_t bytes_of_call(CollectiveCall call, std::span<const Word> words, bool large_counts);

}  // namespace outrigger::mpi
