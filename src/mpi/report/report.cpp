#include "mpi/report/report.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "mpi/collectives/operation.hpp"
#include "mpi/memory/shared_heap.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/message.hpp"
#include "mpi/native/real.hpp"
#include "mpi/report/wire_use.hpp"
#include "mpi/start/job.hpp"
#include "protocol/reach.hpp"

namespace outrigger::mpi {

namespace {

constexpr std::size_t kMaxRecords = 1024;  // communicators counted one by one; later ones are counted together
constexpr std::size_t kNameBytes = 64;

// bytes[]: the reaches, then:
constexpr std::size_t kOwn = kReachCount;
constexpr std::size_t kBounce = kReachCount + 1;
constexpr std::size_t kByteKinds = kReachCount + 2;
constexpr std::array<const char*, kByteKinds> kByteNames = [] {
  std::array<const char*, kByteKinds> names{};
  for (std::size_t i = 0; i < kReachCount; ++i) names[i] = name_of(static_cast<Reach>(i)).data();
  names[kOwn] = "own";
  names[kBounce] = "bounce";
  return names;
}();

constexpr std::array<const char*, kNativeReasons> kReasonNames{
    "none",         "unknown communicator", "group of one",      "group too large",
    "switched off", "selection table",      "invalid arguments", "service core taken",
    "small blocks"};

constexpr std::array<const char*, kAlgorithms.size()> kAlgorithmNames = [] {
  std::array<const char*, kAlgorithms.size()> names{};
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kAlgorithms[i].name.data();
  return names;
}();

struct Stats {
  std::uint64_t calls = 0;
  std::uint64_t offloaded = 0;
  std::array<std::uint64_t, kNativeReasons> native{};
  std::array<std::uint64_t, kAlgorithms.size()> algorithms{};  // offloaded by each, as kAlgorithms
  std::array<std::uint64_t, kByteKinds> bytes{};
  std::uint64_t late = 0;
  std::int64_t post_ns = 0;
  std::int64_t completion_ns = 0;
};

}  // namespace

struct CommRecord {
  GroupId id;
  std::uint32_t size = 0;  // 0: of several or unknown communicators
  std::array<char, kNameBytes> name{};
  std::array<Stats, kCollectives.size()> stats{};  // by index_of(collective)
};
static_assert(std::is_trivially_copyable_v<CommRecord>);

namespace {

// What a rank says of itself beside its records.
struct RankFigures {
  double offloaded_calls = 0;       // CPU seconds inside our calls
  double process = 0;               // CPU seconds of the process
  std::uint64_t waiting_bytes = 0;  // copied by threads that waited
  std::uint64_t huge_bytes = 0;     // of buffers, moved to huge pages
};

constinit std::mutex mutex;
constinit bool counting = false;
constinit std::int64_t cpu_in_calls_ns = 0;

std::vector<CommRecord*>& records() {
  static auto* all = new std::vector<CommRecord*>;
  return *all;
}

CommRecord& others() {
  static CommRecord record = [] {
    CommRecord made;
    std::snprintf(made.name.data(), made.name.size(), "(other communicators)");
    return made;
  }();
  return record;
}

std::int64_t now_ns(clockid_t clock) {
  return time_on(clock).count();
}

Stats& stats_of(const CommState* comm, Collective collective) {
  CommRecord* record = comm == nullptr ? nullptr : comm->record();
  return (record == nullptr ? others() : *record).stats[index_of(collective)];
}

void name_record(const CommState& comm) {
  CommRecord* record = comm.record();
  if (record == nullptr || record == &others() || record->name[0] != 0) return;
  std::array<char, MPI_MAX_OBJECT_NAME + 1> name{};
  int length = 0;
  real().Comm_get_name(comm.error_comm(), name.data(), &length);
  std::snprintf(record->name.data(), record->name.size(), "%.*s", static_cast<int>(kNameBytes) - 1,
                length > 0 ? name.data() : "(unnamed)");
}

double process_cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Figures of all ranks put together.
struct Spread {
  double sum = 0;
  double min = 0;
  double max = 0;
  std::uint32_t ranks = 0;
  void add(double value) {
    min = ranks == 0 ? value : std::min(min, value);
    max = ranks == 0 ? value : std::max(max, value);
    sum += value;
    ++ranks;
  }
};

struct Merged {
  std::string name;
  std::uint32_t size = 0;
  GroupId id;
  Stats total;
  Spread post;
  Spread completion;
};

struct Summary {
  std::map<std::pair<std::size_t, GroupId>, Merged> rows;
  Spread cpu_calls;
  Spread cpu_process;
  std::vector<WireUse> wire;
  SharedHeapCounts heap;
  std::uint64_t waiting_bytes = 0;
  std::uint64_t huge_bytes = 0;
};

void merge(Merged& row, const CommRecord& record, const Stats& stats) {
  if (row.name.empty()) row.name = record.name[0] != 0 ? record.name.data() : "(unnamed)";
  row.size = record.size;
  row.id = record.id;
  row.total.calls += stats.calls;
  row.total.offloaded += stats.offloaded;
  for (std::size_t i = 0; i < kNativeReasons; ++i) row.total.native[i] += stats.native[i];
  for (std::size_t i = 0; i < kAlgorithms.size(); ++i) row.total.algorithms[i] += stats.algorithms[i];
  for (std::size_t i = 0; i < kByteKinds; ++i) row.total.bytes[i] += stats.bytes[i];
  row.total.late += stats.late;
  row.post.add(1e-9 * static_cast<double>(stats.post_ns));
  row.completion.add(1e-9 * static_cast<double>(stats.completion_ns));
}

void merge(Summary& summary, const CommRecord& record) {
  for (std::size_t i = 0; i < kCollectives.size(); ++i) {
    if (record.stats[i].calls != 0) merge(summary.rows[{i, record.id}], record, record.stats[i]);
  }
}

const char* collective_name(std::size_t index) {
  return kCollectives[index].name.data();
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    result += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
  }
  return result + "\"";
}

std::string json(const Spread& spread) {
  std::array<char, 128> text{};
  std::snprintf(text.data(), text.size(), R"({"sum": %.9f, "min": %.9f, "max": %.9f})", spread.sum, spread.min,
                spread.max);
  return text.data();
}

std::string json(const std::vector<WireUse>& uses) {
  std::string text;
  for (const WireUse& use : uses) {
    text += (text.empty() ? "{\"kind\": " : ", {\"kind\": ") + quoted(std::string(use.route.kind())) +
            ", \"transports\": " + quoted(transports_of(use.route)) + ", \"nodes\": " + std::to_string(use.nodes) + "}";
  }
  return "[" + text + "]";
}

std::string hexadecimal(GroupId id) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%016llx%016llx", static_cast<unsigned long long>(id.high),
                static_cast<unsigned long long>(id.low));
  return text.data();
}

template <std::size_t count>
std::string json_counts(const std::array<const char*, count>& names, const std::array<std::uint64_t, count>& values,
                        bool zeros) {
  std::string text = "{";
  for (std::size_t i = 0; i < count; ++i) {
    if (values[i] == 0 && !zeros) continue;
    if (text.size() > 1) text += ", ";
    text += quoted(names[i]) + ": " + std::to_string(values[i]);
  }
  return text + "}";
}

std::string json_row(std::size_t collective, const Merged& row) {
  return "    {\"collective\": " + quoted(collective_name(collective)) + ", \"communicator\": " + quoted(row.name) +
         ", \"group\": " + quoted(hexadecimal(row.id)) + ", \"size\": " + std::to_string(row.size) +
         ",\n     \"calls\": " + std::to_string(row.total.calls) +
         ", \"offloaded\": " + std::to_string(row.total.offloaded) +
         ", \"algorithms\": " + json_counts(kAlgorithmNames, row.total.algorithms, false) +
         ", \"native\": " + json_counts(kReasonNames, row.total.native, false) +
         ",\n     \"bytes\": " + json_counts(kByteNames, row.total.bytes, true) +
         ", \"late_announcements\": " + std::to_string(row.total.late) + ",\n     \"post_seconds\": " + json(row.post) +
         ",\n     \"completion_seconds\": " + json(row.completion) + "}";
}

std::string json(const SharedHeapCounts& heap) {
  return "{\"allocations\": " + std::to_string(heap.allocations) + ", \"bytes\": " + std::to_string(heap.bytes) +
         ", \"refused\": " + std::to_string(heap.refused) + ", \"forks\": " + std::to_string(heap.forks) + "}";
}

std::string json(const Job& job, const Summary& summary) {
  const WelcomeBody& welcome = job.client->welcome();
  std::string text = "{\n  \"version\": 1,\n  \"mpi\": " + quoted(constants().mpi_name) +
                     ",\n  \"ranks\": " + std::to_string(job.world_size) +
                     ",\n  \"nodes\": " + std::to_string(job.nodes) + ",\n  \"wire\": " + json(summary.wire) +
                     (job.config.memory.heap ? ",\n  \"shared_heap\": " + json(summary.heap) : std::string()) +
                     ",\n  \"copied_while_waiting\": " + std::to_string(summary.waiting_bytes) +
                     ",\n  \"in_huge_pages\": " + std::to_string(summary.huge_bytes) +
                     ",\n  \"service\": {\"processes\": " + std::to_string(welcome.sp_count) +
                     ", \"core\": " + std::to_string(welcome.cpu) +
                     ", \"core_is_free\": " + (welcome.core_share == copy::CoreShare::own ? "true" : "false") +
                     ", \"cross_memory_attach\": " + (job.client->reached_by(kReachCma) ? "true" : "false") +
                     ", \"xpmem\": " + (job.client->reached_by(kReachXpmem) ? "true" : "false") +
                     "},\n  \"collectives\": [";
  const char* separator = "\n";
  for (const auto& [key, row] : summary.rows) {
    text += separator + json_row(key.first, row);
    separator = ",\n";
  }
  return text + "],\n  \"rank_cpu_seconds\": {\"offloaded_calls\": " + json(summary.cpu_calls) +
         ", \"process\": " + json(summary.cpu_process) + "}\n}\n";
}

template <class... Values>
void append_line(std::string& text, const char* format, Values... values) {
  std::array<char, 400> line{};
  std::snprintf(line.data(), line.size(), format, values...);
  text += line.data();
}

std::string reasons_of(const Stats& stats) {
  std::string text;
  for (std::size_t i = 0; i < kNativeReasons; ++i) {
    if (stats.native[i] == 0) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(stats.native[i]) + " " + kReasonNames[i];
  }
  return text.empty() ? "-" : text;
}

std::string table(const Job& job, const Summary& summary) {
  std::string text;
  append_line(text, "outrigger: report of %u ranks, %u service process(es)\n", job.world_size,
              job.client->welcome().sp_count);
  append_line(text, "%-11s %-24s %5s %9s %9s  %-28s %11s %11s %8s\n", "collective", "communicator", "size", "calls",
              "offloaded", "native", "post us", "wait us", "late");
  for (const auto& [key, row] : summary.rows) {
    const double calls = static_cast<double>(std::max<std::uint64_t>(1, row.total.offloaded));
    append_line(text, "%-11s %-24.24s %5u %9llu %9llu  %-28.28s %11.2f %11.2f %8llu\n", collective_name(key.first),
                row.name.c_str(), row.size, static_cast<unsigned long long>(row.total.calls),
                static_cast<unsigned long long>(row.total.offloaded), reasons_of(row.total).c_str(),
                1e6 * row.post.sum / calls, 1e6 * row.completion.sum / calls,
                static_cast<unsigned long long>(row.total.late));
    text += "           by:";
    for (std::size_t i = 0; i < kAlgorithms.size(); ++i) {
      if (row.total.algorithms[i] == 0) continue;
      append_line(text, " %s %llu", kAlgorithmNames[i], static_cast<unsigned long long>(row.total.algorithms[i]));
    }
    text += row.total.offloaded == 0 ? " -;" : ";";
    text += " bytes:";
    for (std::size_t i = 0; i < kByteKinds; ++i) {
      append_line(text, " %s %llu", kByteNames[i], static_cast<unsigned long long>(row.total.bytes[i]));
    }
    text += "\n";
  }
  if (job.config.memory.heap) {
    append_line(
        text, "shared heap: %llu allocations, %llu bytes; %llu refused; ended by %llu forks\n",
        static_cast<unsigned long long>(summary.heap.allocations), static_cast<unsigned long long>(summary.heap.bytes),
        static_cast<unsigned long long>(summary.heap.refused), static_cast<unsigned long long>(summary.heap.forks));
  }
  if (summary.waiting_bytes != 0) {
    append_line(text, "copied by ranks while they waited: %llu bytes, counted with copier\n",
                static_cast<unsigned long long>(summary.waiting_bytes));
  }
  if (summary.huge_bytes != 0) {
    append_line(text, "buffers moved to huge pages: %llu bytes\n", static_cast<unsigned long long>(summary.huge_bytes));
  }
  if (job.nodes > 1) text += "wire: " + wire_text(summary.wire, job.nodes) + "\n";
  append_line(text, "rank CPU seconds: %.6f in offloaded calls (most on one rank %.6f), %.3f in the processes\n",
              summary.cpu_calls.sum, summary.cpu_calls.max, summary.cpu_process.sum);
  return text;
}

void write_text(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "we");
  if (file == nullptr || std::fwrite(text.data(), 1, text.size(), file) != text.size()) {
    print("the report could not be written to OUTRIGGER_REPORT=%s: %s", path.c_str(), std::strerror(errno));
  }
  if (file != nullptr) std::fclose(file);
}

std::vector<CommRecord> own_records() {
  const std::scoped_lock lock(mutex);
  std::vector<CommRecord> mine;
  for (const CommRecord* record : records()) {
    const bool called = std::any_of(record->stats.begin(), record->stats.end(), [](const Stats& s) { return s.calls; });
    if (called) mine.push_back(*record);
  }
  mine.push_back(others());
  return mine;
}

// All ranks' records, on world rank 0.
std::vector<CommRecord> gather_records(const Job& job) {
  const std::vector<CommRecord> mine = own_records();
  const int bytes = static_cast<int>(mine.size() * sizeof(CommRecord));
  std::vector<int> counts(job.world_size);
  std::vector<int> offsets(job.world_size);
  real().Gather(&bytes, 1, constants().int32, counts.data(), 1, constants().int32, 0, constants().comm_world);
  int total = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    offsets[i] = total;
    total += counts[i];
  }
  std::vector<CommRecord> all(static_cast<std::size_t>(total) / sizeof(CommRecord));
  real().Gatherv(mine.data(), bytes, constants().byte, all.data(), counts.data(), offsets.data(), constants().byte, 0,
                 constants().comm_world);
  return all;
}

std::vector<RankFigures> gather_figures(const Job& job) {
  const client::Client::Statistics statistics = job.client->statistics();
  RankFigures mine{1e-9 * static_cast<double>(cpu_in_calls_ns), process_cpu_seconds(), statistics.helped_bytes,
                   statistics.huge_bytes};
  std::vector<RankFigures> all(job.world_rank == 0 ? job.world_size : 1);
  const int bytes = static_cast<int>(sizeof mine);
  real().Gather(&mine, bytes, constants().byte, all.data(), bytes, constants().byte, 0, constants().comm_world);
  return all;
}

}  // namespace

void start_report(const Job& job) {
  counting = job.reporting;
}

CommRecord* report_communicator(GroupId id, std::uint32_t size) {
  if (!counting) return nullptr;
  const std::scoped_lock lock(mutex);
  if (records().size() >= kMaxRecords) return &others();
  auto* record = new CommRecord;  // kept until the report is written, longer than the communicator
  record->id = id;
  record->size = size;
  records().push_back(record);
  return record;
}

void count_native(const Job& job, Collective collective, const CommState* comm, NativeReason reason) {
  if (!job.reporting) return;
  if (comm != nullptr) name_record(*comm);
  const std::scoped_lock lock(mutex);
  Stats& stats = stats_of(comm, collective);
  ++stats.calls;
  ++stats.native[static_cast<std::size_t>(reason)];
}

void count_post(const Operation& operation) {
  name_record(*operation.comm);
  const std::scoped_lock lock(mutex);
  Stats& stats = stats_of(operation.comm, operation.collective);
  ++stats.calls;
  ++stats.offloaded;
  ++stats.algorithms[index_of(operation.algorithm)];
  if (operation.send.staged()) stats.bytes[kBounce] += operation.send.total_bytes();
  if (operation.receive.staged()) stats.bytes[kBounce] += operation.receive.total_bytes();
}

void count_completion(const Operation& operation, const client::OperationResult& result) {
  const std::scoped_lock lock(mutex);
  Stats& stats = stats_of(operation.comm, operation.collective);
  for (std::size_t i = 0; i < kReachCount; ++i) stats.bytes[i] += result.bytes_by_reach[i];
  if (operation.own_block_by_rank) stats.bytes[kOwn] += operation.receive.bytes_of(operation.comm->me().value());
  stats.late += result.late_announcements;
}

CallTimer::CallTimer(const Job& job, Kind kind) : on_(job.reporting), kind_(kind) {
  if (!on_) return;
  wall_ns_ = now_ns(CLOCK_MONOTONIC);
  cpu_ns_ = now_ns(CLOCK_THREAD_CPUTIME_ID);
}

void CallTimer::belongs_to(const Operation& operation) {
  if (!on_) return;
  record_ = operation.comm->record();
  collective_ = operation.collective;
}

CallTimer::~CallTimer() {
  if (!on_) return;
  const std::int64_t wall = now_ns(CLOCK_MONOTONIC) - wall_ns_;
  const std::int64_t cpu = now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns_;
  const std::scoped_lock lock(mutex);
  cpu_in_calls_ns += cpu;
  if (record_ == nullptr) return;
  Stats& stats = record_->stats[index_of(collective_)];
  (kind_ == Kind::post ? stats.post_ns : stats.completion_ns) += wall;
}

void write_report(const Job& job) {
  const std::vector<CommRecord> all = gather_records(job);
  const std::vector<RankFigures> figures = gather_figures(job);
  std::vector<WireUse> wire = gather_wire_use(job);
  const SharedHeapCounts heap = job.config.memory.heap ? gather_heap_counts(job) : SharedHeapCounts{};
  if (job.world_rank != 0) return;
  Summary summary;
  summary.wire = std::move(wire);
  summary.heap = heap;
  for (const CommRecord& record : all) merge(summary, record);
  for (const RankFigures& rank : figures) {
    summary.waiting_bytes += rank.waiting_bytes;
    summary.huge_bytes += rank.huge_bytes;
    summary.cpu_calls.add(rank.offloaded_calls);
    summary.cpu_process.add(rank.process);
  }
  if (job.config.report == "-") {
    const std::string text = table(job, summary);
    std::fwrite(text.data(), 1, text.size(), stderr);
  } else {
    write_text(job.config.report, json(job, summary));
  }
}

}  // namespace outrigger::mpi
