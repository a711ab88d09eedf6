#include "mpi/report/counting.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <optional>
#include <utility>

#include "base/stack.hpp"
#include "mpi/collectives/offloaded_collective.hpp"
#include "mpi/communicators/comm_state.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/native/message.hpp"
#include "mpi/native/real.hpp"
#include "mpi/report/comm_records.hpp"
#include "mpi/report/native_requests.hpp"
#include "mpi/report/phases.hpp"
#include "mpi/report/report.hpp"
#include "mpi/trace/tracing.hpp"

namespace outrigger::mpi {
namespace {

using report::LedgerRow;
using report::NativeReason;

constexpr std::size_t kMaxRecords = 1024;  // communicators with their own rows; later ones are counted together
// The other rows are for "(other communicators)" and phases, with one for phases beyond the limit.
constexpr std::uint32_t kSharedRows = report::kLedgerRows - kCallKinds - (kMaxPhases + 1);

constinit FutexLock ledger_mutex;
constinit std::size_t records_made = 0;
constinit bool is_readable = false;  // there is a ledger of this process
// longjmp() may have left it.
[[gnu::tls_model("initial-exec")]] constinit thread_local CallCount* current_call = nullptr;

std::optional<report::Ledger>& the_ledger() {
  static auto* one = new std::optional<report::Ledger>;  // until the end of the process
  return *one;
}

// The thread's last row: programs repeat the same calls.
struct KnownRow {
  MPI_Comm comm{};
  std::uint64_t freed = 0;  // freed_communicators() at the look-up
  std::size_t kind = 0;
  LedgerRow* row = nullptr;
};
constexpr unsigned kKnownRowsLog2 = 3;
[[gnu::tls_model("initial-exec")]] constinit thread_local std::array<KnownRow, 1U << kKnownRowsLog2> known_rows;

struct NamedRecord {
  NamedRecord(GroupId id, std::uint32_t size, const char* name) {
    record.id = id;
    record.size = size;
    report::set_text(record.name, name);
  }
  CommRecord record;
};

CommRecord& others() {
  static NamedRecord named(report::kOtherCommunicators, 0, "(other communicators)");
  return named.record;
}

CommRecord& groups_of_one() {
  static NamedRecord named(report::kGroupsOfOne, 1, "(groups of one rank)");
  return named.record;
}

void name_record(CommRecord& record, MPI_Comm comm) {
  if (record.name[0] != '\0') return;
  std::array<char, MPI_MAX_OBJECT_NAME + 1> name{};
  int length = 0;
  real().Comm_get_name(comm, name.data(), &length);
  const std::scoped_lock lock(ledger_mutex);
  report::set_text(record.name, length > 0 ? name.data() : "(unnamed)");
}

// Under the lock. If no row is left, the row of the other communicators.
LedgerRow& find_row(CommRecord& record, CallKind kind) {
  std::atomic<std::uint16_t>& place = record.rows[index_of(kind)];
  if (const std::uint16_t known = place.load(std::memory_order_relaxed)) return ledger().row(known - 1U);
  std::uint32_t& used = ledger().header().row_count;
  const bool is_last_resort = &record == &others();
  if (used >= (is_last_resort ? report::kLedgerRows : kSharedRows)) {
    return find_row(others(), kind);  // has room: one row per kind is reserved for it
  }
  LedgerRow& row = ledger().row(used);
  row.group = record.id;
  row.kind = static_cast<std::uint32_t>(index_of(kind));
  row.size = record.size;
  row.name = record.name;
  place.store(static_cast<std::uint16_t>(++used), std::memory_order_release);
  return row;
}

// For a communicator that the library does not know, in an offloaded job.
CommRecord& make_shared_record(MPI_Comm comm) {
  return is_group_of_one(comm) ? groups_of_one() : others();
}

CommRecord& make_native_record(MPI_Comm comm) {
  CommRecord* record = is_group_of_one(comm) ? nullptr : record_by_name(comm);
  return record == nullptr ? make_shared_record(comm) : *record;
}

// The ledger is not mapped there.
void forget_in_child() {
  stop_counting();
  is_readable = false;
}

}  // namespace

namespace detail {
constinit std::atomic<std::uint8_t> observing = 0;
}

bool start_counting() {
  Result<report::Ledger> made = report::Ledger::create();
  if (!made) made = report::Ledger::create_private();
  if (!made) {
    print("there will be no report: no memory for the counters: %s", made.error().c_str());
    return false;
  }
  the_ledger() = std::move(made).value();
  is_readable = true;
  (void)pthread_atfork(nullptr, nullptr, &forget_in_child);
  detail::observing.fetch_or(detail::kCounts, std::memory_order_release);
  return true;
}

void stop_counting() {
  detail::observing.fetch_and(static_cast<std::uint8_t>(~detail::kCounts), std::memory_order_release);
}

report::Ledger& ledger() {
  return *the_ledger();
}

CommRecord* report_communicator(GroupId id, std::uint32_t size) {
  if (!observing()) return nullptr;
  if (size == 1) return &groups_of_one();
  const std::scoped_lock lock(ledger_mutex);
  if (records_made >= kMaxRecords) return &others();
  ++records_made;
  auto* record = new CommRecord;  // kept until the report is written, longer than the communicator
  record->id = id;
  record->size = size;
  return record;
}

CommRecord& record_of(MPI_Comm comm) {
  const Job* job = current_job();
  const CommState* state = job == nullptr ? nullptr : state_of(*job, comm);
  CommRecord* record = state == nullptr ? nullptr : state->record();
  if (record == nullptr) record = &attached_record(comm, job == nullptr ? make_native_record : make_shared_record);
  name_record(*record, comm);
  return *record;
}

report::LedgerRow* new_phase_row(std::string_view name) {
  const std::scoped_lock lock(ledger_mutex);
  std::uint32_t& used = ledger().header().row_count;
  if (used >= report::kLedgerRows) return nullptr;
  LedgerRow& row = ledger().row(used++);
  row.group = report::kPhases;
  report::set_text(row.name, name);
  return &row;
}

bool read_rows(const std::function<void(const LedgerRow&)>& look) {
  const std::scoped_lock lock(ledger_mutex);
  if (!is_readable) return false;
  for (std::uint32_t i = 0; i < ledger().header().row_count; ++i) {
    if (!ledger().row(i).is_phase()) look(ledger().row(i));
  }
  return true;
}

report::LedgerRow& row_of(CommRecord& record, CallKind kind) {
  if (const std::uint16_t known = record.rows[index_of(kind)].load(std::memory_order_acquire)) {
    return ledger().row(known - 1U);
  }
  const std::scoped_lock lock(ledger_mutex);
  return find_row(record, kind);
}

report::LedgerRow& row_on(MPI_Comm comm, CallKind kind) {
  const std::size_t index = index_of(kind);
  const std::uint64_t freed = freed_communicators();
  KnownRow& known = known_rows[((handle_key(comm) + index) * 0x9E3779B97F4A7C15ULL) >> (64 - kKnownRowsLog2)];
  if (known.row == nullptr || known.comm != comm || known.kind != index || known.freed != freed) {
    known = KnownRow{comm, freed, index, &row_of(record_of(comm), kind)};
  }
  return *known.row;
}

RowChange::RowChange(LedgerRow& row)
    : lock_(ledger_mutex), row_(row), phase_(row.is_phase() ? nullptr : current_phase()) {
  if (phase_ != nullptr) before_ = sums_of(row);
}

RowChange::Sums RowChange::sums_of(const LedgerRow& row) {
  return {row.calls, row.offloaded, row.measured, row.bytes, row.time_ns()};
}

void RowChange::add_to_phase() {
  const Sums after = sums_of(row_);
  phase_->calls += after.calls - before_.calls;
  phase_->offloaded += after.offloaded - before_.offloaded;
  phase_->measured += after.measured - before_.measured;
  phase_->bytes += after.bytes - before_.bytes;
  phase_->call_ns += after.time_ns - before_.time_ns;
}

void change_header(const std::function<void(report::LedgerHeader&)>& change) {
  const std::scoped_lock lock(ledger_mutex);
  change(ledger().header());
}

void change_header_at_last(const std::function<void(report::LedgerHeader&)>& change) {
  constexpr int kTries = 1000;
  std::unique_lock lock(ledger_mutex, std::try_to_lock);
  for (int i = 0; i < kTries && !lock.owns_lock(); ++i) {
    ::sched_yield();
    (void)lock.try_lock();
  }
  change(ledger().header());
}

void add_bytes(LedgerRow& row, std::uint64_t bytes) {
  row.least_bytes = row.measured == 0 ? bytes : std::min(row.least_bytes, bytes);
  row.most_bytes = std::max(row.most_bytes, bytes);
  row.bytes += bytes;
  ++row.measured;
}

CallCount::CallCount(CallKind kind, std::span<const Word> words, bool large_counts)
    : kind_(kind),
      words_(words),
      large_counts_(large_counts),
      outer_(is_above(current_call, this) ? current_call : nullptr),
      began_ns_(monotonic_ns()) {
  current_call = this;
}

CallCount::~CallCount() {
  current_call = outer_;
}

CallCount* CallCount::current() {
  return is_above(current_call, __builtin_frame_address(0)) ? current_call : nullptr;
}

report::LedgerRow& CallCount::offloaded_by(Operation& operation) {
  const CommState& comm = *operation.comm;
  CommRecord* record = comm.record();
  if (kind_.form == CallForm::nonblocking) posted_operation_ = &operation;
  if (record != nullptr) name_record(*record, comm.error_comm());
  offloaded_ = &row_of(record == nullptr ? others() : *record, kind_);
  return *offloaded_;
}

NativeReason CallCount::reason() const {
  if (current_job() == nullptr) return NativeReason::native_job;
  if (reason_ != NativeReason::none) return reason_;
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
    return;
  }
  NativeReason why = reason();
  if (row.size == 1 && !report::could_be_offloaded(why)) {
    why = NativeReason::group_of_one;
    ++row.alone;
  }
  ++row.native[static_cast<std::size_t>(why)];
}

void CallCount::count(LedgerRow& row, int code, std::int64_t ended_ns) const {
  const std::int64_t spent = ended_ns - began_ns_;
  // The sent bytes cannot be read if the MPI rejected the call.
  const std::optional<std::uint64_t> bytes =
      code == MPI_SUCCESS ? std::optional(bytes_of_call(kind_.call, words_, large_counts_)) : std::nullopt;
  change_row(row, [&](LedgerRow& counted) {
    counted.call_ns += spent;
    if (kind_.form == CallForm::persistent) return;  // it counts when it is started
    if (posted_operation_ != nullptr) counted.post_ns += spent;
    count_call(counted);
    if (bytes) add_bytes(counted, *bytes);
  });
}

void CallCount::watch_request(LedgerRow& row, std::int64_t ended_ns) const {
  if (offloaded_ != nullptr || kind_.form == CallForm::blocking) return;
  const MPI_Request request = *argument<const MPI_Request*>(words_.back());
  if (kind_.form == CallForm::nonblocking) return watch_native_request(request, row, ended_ns);
  watch_persistent_request(request, row, bytes_of_call(kind_.call, words_, large_counts_), reason());
}

// Rejected calls are not traced.
void CallCount::trace(int code) const {
  if (code != MPI_SUCCESS) return;
  TracedCall call;
  call.kind = kind_;
  call.began_ns = began_ns_;
  if (post_) {
    call.post = post_;
    call.bytes = post_->bytes ? *post_->bytes : bytes_of_call(kind_.call, words_, large_counts_);
    if (post_->record != nullptr && post_->record->traced.load(std::memory_order_relaxed)) call.record = post_->record;
  } else {
    call.bytes = bytes_of_call(kind_.call, words_, large_counts_);
    call.reason = reason();
  }
  if (call.record == nullptr) {
    call.record = &record_of(argument<MPI_Comm>(words_[static_cast<std::size_t>(arguments_of(kind_.call).comm)]));
  }
  if (kind_.form != CallForm::blocking) call.request = argument<const MPI_Request*>(words_.back());
  trace_call(call);
}

void CallCount::ended(int code) {
  if (tracing()) trace(code);
  if (!counting()) return;
  const std::int64_t now_ns = monotonic_ns();
  if (posted_operation_ != nullptr) count_start_ended(*posted_operation_, now_ns);
  if (offloaded_ != nullptr) return count(*offloaded_, code, now_ns);
  if (code != MPI_SUCCESS) return count(row_of(others(), kind_), code, now_ns);
  const auto comm = static_cast<std::size_t>(arguments_of(kind_.call).comm);
  LedgerRow& row = row_on(argument<MPI_Comm>(words_[comm]), kind_);
  count(row, code, now_ns);
  watch_request(row, now_ns);
}

}  // namespace outrigger::mpi
