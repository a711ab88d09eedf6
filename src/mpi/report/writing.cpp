#include "mpi/report/writing.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <span>
#include <vector>

#include "base/program_name.hpp"
#include "base/whole_file.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/message.hpp"
#include "mpi/native/real.hpp"
#include "mpi/report/counting.hpp"
#include "report/json.hpp"

namespace outrigger::mpi {
namespace {

std::int64_t process_cpu_ns() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto nanoseconds = [](const timeval& time) {
    return std::int64_t{1'000'000'000} * time.tv_sec + std::int64_t{1000} * time.tv_usec;
  };
  return nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime);
}

constexpr int kLedgerTag = 1;

// To rank 0, which needs memory for one ledger at a time.
void send_ledger(std::span<const std::byte> mine, MPI_Comm comm) {
  MPI_Request request = constants().request_null;
  real().Isend(mine.data(), static_cast<int>(mine.size()), constants().byte, 0, kLedgerTag, comm, &request);
  real().Wait(&request, MPI_STATUS_IGNORE);
}

std::span<const std::byte> receive_ledger(std::vector<std::byte>& room, int bytes, int from, MPI_Comm comm) {
  room.resize(static_cast<std::size_t>(bytes));
  MPI_Request request = constants().request_null;
  real().Irecv(room.data(), bytes, constants().byte, from, kLedgerTag, comm, &request);
  real().Wait(&request, MPI_STATUS_IGNORE);
  return room;
}

}  // namespace

std::string absolute_path(const std::string& path) {
  std::array<char, PATH_MAX> here{};
  if (path.starts_with('/') || ::getcwd(here.data(), here.size()) == nullptr) return path;
  return std::string(here.data()) + "/" + path;
}

void begin_ledger(const LedgerStart& start) {
  change_header([&](report::LedgerHeader& header) {
    header.world_rank = start.world_rank;
    header.world_size = start.world_size;
    header.started_ns = monotonic_ns();
    report::set_text(header.mpi, constants().mpi_name);
    report::set_text(header.program, program_name());
    report::set_text(header.native_because, start.native_because);
    report::set_text(header.path, start.path);
  });
}

void end_ledger() {
  change_header_at_last([](report::LedgerHeader& header) {
    header.ended_ns = monotonic_ns();
    header.last.process_cpu_ns = process_cpu_ns();
    header.last.known = 1;
  });
}

report::Summary gather_summary(MPI_Comm comm) {
  report::Summary summary;
  const std::int64_t now = monotonic_ns();
  if (comm == constants().comm_null) {
    report::add_ledger(summary, ledger().bytes(), now);
    return summary;
  }
  const std::span<const std::byte> mine = ledger().bytes();
  int rank = 0;
  int size = 0;
  real().Comm_rank(comm, &rank);
  real().Comm_size(comm, &size);
  const int bytes = static_cast<int>(mine.size());
  std::vector<int> counts(rank == 0 ? static_cast<std::size_t>(size) : 0);
  real().Gather(&bytes, 1, constants().int32, counts.data(), 1, constants().int32, 0, comm);
  real().Barrier(comm);  // rank 0 may still be in callbacks of the program, whose receives would match ledgers
  if (rank != 0) {
    send_ledger(mine, comm);
    return summary;
  }
  report::add_ledger(summary, mine, now);
  std::vector<std::byte> room;
  for (int from = 1; from < size; ++from) {
    report::add_ledger(summary, receive_ledger(room, counts[static_cast<std::size_t>(from)], from, comm), now);
  }
  return summary;
}

void write_beginning() {
  report::Summary summary = gather_summary(constants().comm_null);
  summary.counted.clear();
  summary.run_seconds = {};
  summary.outside_seconds = {};
  summary.cpu_calls = {};
  summary.waits = {};
  write_summary(summary, false);
}

void write_summary(const report::Summary& summary, bool last) {
  const std::string path = report::text_in(ledger().header().path);
  const Status written = write_file(path, report::as_json(summary), last);
  if (!written)
    print("the report could not be written to OUTRIGGER_REPORT=%s: %s", path.c_str(), written.error().c_str());
}

}  // namespace outrigger::mpi
