#include "mpi/report/counting.hpp"

#include <mutex>

#include "mpi/communicators/comm_state.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/real.hpp"
#include "mpi/report/comm_records.hpp"

namespace outrigger::mpi {
namespace {

using report::LedgerRow;

constexpr std::size_t kMaxRecords = 1024;  // communicators with their own rows; later ones are counted together
// The other rows are for "(other communicators)", call sites, and phases, with one for phases beyond the limit.
constexpr std::uint32_t kSharedRows = report::kLedgerRows - kCallKinds - report::kMostSites - (kMaxPhases + 1);

constinit std::size_t records_made = 0;

// The thread's last row: programs repeat the same calls.
struct KnownRow {
  MPI_Comm comm{};
  std::uint64_t freed = 0;  // freed_communicators() at the look-up
  std::size_t kind = 0;
  LedgerRow* row = nullptr;

  [[nodiscard]] bool is_of(MPI_Comm called, CallKind called_kind, std::uint64_t freed_now) const {
    return row != nullptr && comm == called && kind == index_of(called_kind) && freed == freed_now;
  }
};
constexpr unsigned kKnownRowsLog2 = 3;
[[gnu::tls_model("initial-exec")]] constinit thread_local std::array<KnownRow, 1U << kKnownRowsLog2> known_rows;

KnownRow& known_row(MPI_Comm comm, CallKind kind) {
  return known_rows[((handle_key(comm) + index_of(kind)) * 0x9E3779B97F4A7C15ULL) >> (64 - kKnownRowsLog2)];
}

struct NamedRecord {
  NamedRecord(GroupId id, std::uint32_t size, const char* name) {
    record.id = id;
    record.size = size;
    report::set_text(record.name, name);
  }
  CommRecord record;
};

CommRecord& groups_of_one() {
  static NamedRecord named(report::kGroupsOfOne, 1, "(groups of one rank)");
  return named.record;
}

// If no row is left, the row of the other communicators.
LedgerRow& find_row(const std::unique_lock<FutexLock>& lock, CommRecord& record, CallKind kind) {
  std::atomic<std::uint16_t>& place = record.rows[index_of(kind)];
  if (const std::uint16_t known = place.load(std::memory_order_relaxed)) return ledger().row(known - 1U);
  const bool is_last_resort = &record == &other_communicators();
  LedgerRow* row = add_ledger_row(lock, is_last_resort ? report::kLedgerRows : kSharedRows);
  if (row == nullptr) return find_row(lock, other_communicators(), kind);  // one row per kind is reserved for it
  row->group = record.id;
  row->kind = static_cast<std::uint32_t>(index_of(kind));
  row->size = record.size;
  row->name = record.name;
  row->members = record.members;
  place.store(static_cast<std::uint16_t>(ledger().header().row_count), std::memory_order_release);
  return *row;
}

// For a communicator that the library does not know, in an offloaded job.
CommRecord& make_shared_record(MPI_Comm comm) {
  return is_group_of_one(comm) ? groups_of_one() : other_communicators();
}

CommRecord& make_native_record(MPI_Comm comm) {
  CommRecord* record = is_group_of_one(comm) ? nullptr : record_by_name(comm);
  return record == nullptr ? make_shared_record(comm) : *record;
}

}  // namespace

CommRecord& other_communicators() {
  static NamedRecord named(report::kOtherCommunicators, 0, "(other communicators)");
  return named.record;
}

void name_record(CommRecord& record, MPI_Comm comm) {
  if (record.name[0] != '\0') return;
  std::array<char, MPI_MAX_OBJECT_NAME + 1> name{};
  int length = 0;
  real().Comm_get_name(comm, name.data(), &length);
  const std::unique_lock lock = lock_ledger();
  report::set_text(record.name, length > 0 ? name.data() : "(unnamed)");
}

CommRecord* report_communicator(GroupId id, std::uint32_t size, report::Members members) {
  if (!observing()) return nullptr;
  if (size == 1) return &groups_of_one();
  const std::unique_lock lock = lock_ledger();
  if (records_made >= kMaxRecords) return &other_communicators();
  ++records_made;
  auto* record = new CommRecord;  // kept until the report is written, longer than the communicator
  record->id = id;
  record->size = size;
  record->members = members;
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

report::LedgerRow& row_of(CommRecord& record, CallKind kind) {
  if (const std::uint16_t known = record.rows[index_of(kind)].load(std::memory_order_acquire)) {
    return ledger().row(known - 1U);
  }
  return find_row(lock_ledger(), record, kind);
}

report::LedgerRow& row_on(MPI_Comm comm, CallKind kind) {
  KnownRow& known = known_row(comm, kind);
  const std::uint64_t freed = freed_communicators();
  if (!known.is_of(comm, kind, freed)) known = KnownRow{comm, freed, index_of(kind), &row_of(record_of(comm), kind)};
  return *known.row;
}

report::LedgerRow& row_before_call(MPI_Comm comm, CallKind kind) {
  const KnownRow& known = known_row(comm, kind);
  if (known.is_of(comm, kind, freed_communicators())) return *known.row;
  const Job* job = current_job();
  const CommState* state = job == nullptr ? nullptr : state_of(*job, comm);
  CommRecord* record = state == nullptr ? nullptr : state->record();
  if (record == nullptr) return row_of(other_communicators(), kind);
  name_record(*record, comm);
  return row_of(*record, kind);
}

}  // namespace outrigger::mpi
