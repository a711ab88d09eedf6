#include "mpi/report/call_count.hpp"

#include <utility>

#include "base/stack.hpp"
#include "mpi/collectives/offloaded_collective.hpp"
#include "mpi/communicators/comm_state.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/report/call_sites.hpp"
#include "mpi/report/present_call.hpp"
#include "mpi/report/report.hpp"
#include "mpi/trace/tracing.hpp"

namespace outrigger::mpi {
namespace {

using report::LedgerRow;
using report::NativeReason;

// longjmp() may have left it.
[[gnu::tls_model("initial-exec")]] constinit thread_local CallCount* current_call = nullptr;

}  // namespace

CallCount::CallCount(CallKind kind, std::span<const Word> words, bool large_counts)
    : kind_(kind),
      words_(words),
      large_counts_(large_counts),
      outer_(is_above(current_call, this) ? current_call : nullptr) {
  current_call = this;
}

CallCount::~CallCount() {
  current_call = outer_;
  if (entered_) leave_call(monotonic_ns());
}

void CallCount::begins(LedgerRow* site) {
  site_ = site;
  // Each start is a collective; the call that makes the request is none.
  const bool is_collective = kind_.form != CallForm::persistent;
  entered_ = is_collective && counting() && outer_ == nullptr && !CompletionOrigin::is_here();
  if (entered_) {
    LedgerRow& row = row_before_call(argument<MPI_Comm>(words_[comm_argument()]), kind_);
    began_ns_ = monotonic_ns();
    return enter_call({row, site, false, next_ordinal(row)}, began_ns_);
  }
  began_ns_ = monotonic_ns();
}

CallCount* CallCount::current() {
  return is_above(current_call, __builtin_frame_address(0)) ? current_call : nullptr;
}

report::LedgerRow& CallCount::offloaded_by(Operation& operation) {
  const CommState& comm = *operation.comm;
  CommRecord* record = comm.record();
  if (kind_.form == CallForm::nonblocking) posted_operation_ = &operation;
  if (record != nullptr) name_record(*record, comm.error_comm());
  offloaded_ = &row_of(record == nullptr ? other_communicators() : *record, kind_);
  return *offloaded_;
}

NativeReason CallCount::reason() const {
  if (reason_ != NativeReason::none) return reason_;
  if (current_job() == nullptr) return NativeReason::native_job;
  const bool has_form = offloaded_as(kind_.call).has_value() && kind_.form != CallForm::persistent;
  return has_form ? NativeReason::blocking_form : NativeReason::not_offloaded;
}

void CallCount::count_call(LedgerRow& row) const {
  ++row.calls;
  if (offloaded_ != nullptr) {
    ++row.offloaded;
    return;
  }
  if (by_ranks_) {
    ++row.by_ranks;
    row.saved_ns += saved_ns_;
    return;
  }
  NativeReason why = reason();
  if (row.size == 1 && !report::could_be_offloaded(why)) {
    why = NativeReason::group_of_one;
    ++row.alone;
  }
  ++row.native[static_cast<std::size_t>(why)];
}

void CallCount::count(LedgerRow& row) const {
  const std::int64_t spent = ended_ns_ - began_ns_;
  // The sent bytes cannot be read if the MPI rejected the call.
  const std::optional<std::uint64_t> bytes = code_ == MPI_SUCCESS ? std::optional(this->bytes()) : std::nullopt;
  const auto change = [&](LedgerRow& counted) {
    counted.call_ns += spent;
    if (kind_.form == CallForm::persistent) return;  // it counts when it is started
    if (posted_operation_ != nullptr) counted.post_ns += spent;
    count_call(counted);
    if (bytes) add_bytes(counted, *bytes);
  };
  change_row(row, change);
  if (site_ != nullptr) change_row(*site_, change);
}

std::uint64_t CallCount::bytes() const {
  return bytes_of_call(kind_.call, words_, large_counts_);
}

// Rejected calls are not traced.
void CallCount::trace(int code) const {
  if (code != MPI_SUCCESS) return;
  TracedCall call;
  call.kind = kind_;
  call.began_ns = began_ns_;
  if (post_) {
    call.post = post_;
    call.bytes = post_->bytes ? *post_->bytes : bytes();
    if (post_->record != nullptr && post_->record->traced.load(std::memory_order_relaxed)) call.record = post_->record;
  } else {
    call.bytes = bytes();
    call.by_ranks = by_ranks_;
    call.reason = reason();
  }
  if (call.record == nullptr) {
    call.record = &record_of(argument<MPI_Comm>(words_[comm_argument()]));
  }
  if (kind_.form != CallForm::blocking) call.request = argument<const MPI_Request*>(words_.back());
  trace_call(call);
}

void CallCount::ended(int code) {
  code_ = code;
  if (tracing()) trace(code);
  if (!counting()) return;
  ended_ns_ = monotonic_ns();
  if (std::exchange(entered_, false)) leave_call(ended_ns_);
  if (posted_operation_ != nullptr) count_start_ended(*posted_operation_, ended_ns_);
}

LedgerRow& CallCount::row() const {
  return row_on(argument<MPI_Comm>(words_[comm_argument()]), kind_);
}

LedgerRow* CallCount::count() {
  if (ended_ns_ == 0) return nullptr;  // counting has just begun
  if (offloaded_ != nullptr || code_ != MPI_SUCCESS) {
    count(offloaded_ != nullptr ? *offloaded_ : row_of(other_communicators(), kind_));
    return nullptr;
  }
  LedgerRow& row = this->row();
  count(row);
  return kind_.form == CallForm::blocking || by_ranks_ ? nullptr : &row;
}

}  // namespace outrigger::mpi
