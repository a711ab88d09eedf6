#include "mpi/report/writing.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <climits>

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

struct Gathered {
  std::vector<std::byte> bytes;  // of all ranks, concatenated
  std::vector<int> counts;
};

Gathered gather(std::span<const std::byte> mine, MPI_Comm comm) {
  Gathered all;
  int rank = 0;
  int size = 0;
  real().Comm_rank(comm, &rank);
  real().Comm_size(comm, &size);
  const int bytes = static_cast<int>(mine.size());
  all.counts.resize(static_cast<std::size_t>(size));
  std::vector<int> offsets(all.counts.size());
  real().Gather(&bytes, 1, constants().int32, all.counts.data(), 1, constants().int32, 0, comm);
  std::size_t total = 0;
  for (std::size_t i = 0; rank == 0 && i < offsets.size(); ++i) {
    offsets[i] = static_cast<int>(total);
    total += static_cast<std::size_t>(all.counts[i]);
  }
  all.bytes.resize(total);
  real().Gatherv(mine.data(), bytes, constants().byte, all.bytes.data(), all.counts.data(), offsets.data(),
                 constants().byte, 0, comm);
  if (rank != 0) all.counts.clear();
  return all;
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
  const Gathered all = gather(ledger().bytes(), comm);
  std::span<const std::byte> left(all.bytes);
  for (const int bytes : all.counts) {
    report::add_ledger(summary, left.first(static_cast<std::size_t>(bytes)), now);
    left = left.subspan(static_cast<std::size_t>(bytes));
  }
  return summary;
}

void write_beginning() {
  report::Summary summary = gather_summary(constants().comm_null);
  summary.counted.clear();
  summary.run_seconds = {};
  summary.cpu_calls = {};
  write_summary(summary, false);
}

void write_summary(const report::Summary& summary, bool last) {
  const std::string path = report::text_in(ledger().header().path);
  const Status written = write_file(path, report::as_json(summary), last);
  if (!written)
    print("the report could not be written to OUTRIGGER_REPORT=%s: %s", path.c_str(), written.error().c_str());
}

}  // namespace outrigger::mpi
