// All environment variables of the library, of outriggerd and of the `outrigger` command. Messages, `outriggerd tables`
// and docs/using/reference.md are made from this table.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace outrigger {

struct SettingRow {
  std::string_view name;
  std::string_view initial;  // default, as text
  std::string_view valid;
  std::string_view meaning;
  bool alike;     // must be equal on all ranks; otherwise the job is native
  bool internal;  // set by `outrigger run` or tests, not by users
};

namespace setting {
inline constexpr const char* kEnable = "OUTRIGGER_ENABLE";
inline constexpr const char* kServices = "OUTRIGGER_SERVICES";
inline constexpr const char* kServiceCpus = "OUTRIGGER_SERVICE_CPUS";
inline constexpr const char* kCopyCpus = "OUTRIGGER_COPY_CPUS";
inline constexpr const char* kAlgorithm = "OUTRIGGER_ALGORITHM";
inline constexpr const char* kChoice = "OUTRIGGER_CHOICE";
inline constexpr const char* kIntranode = "OUTRIGGER_INTRANODE";
inline constexpr const char* kWait = "OUTRIGGER_WAIT";
inline constexpr const char* kSums = "OUTRIGGER_SUMS";
inline constexpr const char* kBlocking = "OUTRIGGER_BLOCKING";
inline constexpr const char* kReach = "OUTRIGGER_REACH";
inline constexpr const char* kSharedHeap = "OUTRIGGER_SHARED_HEAP";
inline constexpr const char* kWaitCopies = "OUTRIGGER_WAIT_COPIES";
inline constexpr const char* kHugePages = "OUTRIGGER_HUGE_PAGES";
inline constexpr const char* kReport = "OUTRIGGER_REPORT";
inline constexpr const char* kLive = "OUTRIGGER_LIVE";
inline constexpr const char* kTrace = "OUTRIGGER_TRACE";
inline constexpr const char* kWindows = "OUTRIGGER_WINDOWS";
inline constexpr const char* kLog = "OUTRIGGER_LOG";
inline constexpr const char* kInitTimeout = "OUTRIGGER_INIT_TIMEOUT_MS";
inline constexpr const char* kDaemon = "OUTRIGGER_DAEMON";
inline constexpr const char* kTransports = "OUTRIGGER_UCX_TLS";
inline constexpr const char* kDpus = "OUTRIGGER_DPUS";
inline constexpr const char* kPretendNodes = "OUTRIGGER_PRETEND_NODES";
inline constexpr const char* kPretendCaches = "OUTRIGGER_PRETEND_CACHES";
inline constexpr const char* kPretendNode = "OUTRIGGER_PRETEND_NODE";
inline constexpr const char* kCoreClaims = "OUTRIGGER_CORE_CLAIMS";
inline constexpr const char* kJob = "OUTRIGGER_JOB";
inline constexpr const char* kFaults = "OUTRIGGER_FAULTS";
inline constexpr const char* kBuild = "OUTRIGGER_BUILD";

// Default of OUTRIGGER_INIT_TIMEOUT_MS. Its row below has the same number.
inline constexpr std::uint32_t kInitTimeoutMs = 20000;
}  // namespace setting

inline constexpr std::array kSettings{
    SettingRow{setting::kEnable, "on", "on, off", "off: nothing is offloaded", false, false},
    SettingRow{setting::kServices, "by the launcher: one for eight ranks", "a number, at most 64",
               "service processes per node; 0 on all ranks: none, and nothing is offloaded", false, false},
    SettingRow{setting::kServiceCpus, "cores that no rank may use; for PyTorch none", "CPUs, like 6,7",
               "CPUs of the service processes; for PyTorch they do asynchronous operations", false, false},
    SettingRow{setting::kCopyCpus, "none", "CPUs, like 6,7",
               "with service processes on DPUs: CPUs of each host that copy between its ranks while they compute; "
               "bound ranks keep off them",
               false, true},
    SettingRow{setting::kCoreClaims, "on", "on, off, or a word",
               "on: jobs that share a node avoid each other's cores; a word: only jobs with the same word do", false,
               true},
    SettingRow{setting::kAlgorithm, "the built-in table", "rules with commas between them",
               "the algorithm of each collective, by size and shape of the communicator", true, false},
    SettingRow{setting::kBlocking, "auto", "on, off, auto",
               "offloads blocking forms that no rule names; auto: only where measurements showed a gain", true, false},
    SettingRow{
        setting::kChoice, "measured", "measured, early, fixed",
        "measured: calls without a rule are tried natively and offloaded, for at most a fiftieth of the time, "
        "and then use the faster way; early: trials start after 140 calls, for short runs that teach later ones; "
        "fixed: no trials, the built-in table decides",
        true, false},
    SettingRow{setting::kIntranode, "on", "on, off, always",
               "on: the ranks of a node do blocking collectives by themselves through shared memory, where trials show "
               "that this is faster than their MPI, and some small nonblocking ones; always: wherever they can, from "
               "the first call on",
               true, false},
    SettingRow{setting::kWait, "auto", "auto, polite, native",
               "polite: ranks yield or sleep while they wait in their MPI; auto: where ranks outnumber "
               "the cores, or other processes use them; native: never",
               false, false},
    SettingRow{setting::kSums, "native", "native, any",
               "order of floating-point sums and products that ranks do by themselves (OUTRIGGER_INTRANODE): native: "
               "learned from the MPI, so that bits are the same; any: the order of ranks, the same whatever the layout",
               true, false},
    SettingRow{setting::kReach, "all", "names with commas between them, or with - in front",
               "allowed ways to reach memory; -NAME forbids one", true, false},
    SettingRow{setting::kSharedHeap, "off", "on, off",
               "service processes map allocations from 64 KiB on; needs liboutrigger-heap.so in LD_PRELOAD, before the "
               "library",
               true, false},
    SettingRow{setting::kWaitCopies, "on", "on, off",
               "waiting ranks copy for their service process, if all of its ranks wait and none has computed since "
               "its post",
               true, false},
    SettingRow{setting::kHugePages, "on", "on, off", "moves buffers that others often copy from to huge pages", true,
               false},
    SettingRow{setting::kReport, "no report", "a file; for PyTorch a directory",
               "writes the report there at the end; the running job is shown as with OUTRIGGER_LIVE=on", true, false},
    SettingRow{setting::kLive, "off", "on, off", "shows the running job in `outrigger top`, `watch` and `exporter`",
               true, false},
    SettingRow{setting::kTrace, "no trace", "a file; for PyTorch a directory",
               "records events of ranks and service processes, for a timeline by `outrigger run --trace`", true, true},
    SettingRow{setting::kWindows, "off", "on, off",
               "with a report: measures how long data stay unused after collectives, for `outrigger advise`; slow",
               false, true},
    SettingRow{setting::kLog, "off", "LEVEL or LEVEL:FILE; off, error, warn, info, debug or trace",
               "info and higher: rank 0 prints the setup and the routes between nodes; FILE: log of keeper and service "
               "processes",
               false, false},
    SettingRow{setting::kInitTimeout, "20000; for a DPU to listen 30000", "milliseconds",
               "time limit in MPI_Init for ranks and service processes, and in `outrigger run` for DPUs", false, false},
    SettingRow{setting::kDaemon, "beside the library", "a path", "path of outriggerd", false, false},
    SettingRow{setting::kTransports, "all but shared memory between nodes, UCX_TLS to DPUs", "as UCX_TLS",
               "transports between nodes and to DPUs; other UCX_* variables apply, too", false, false},
    SettingRow{setting::kDpus, "no DPU", "SECRET@HOST=DPU:PORT,...",
               "addresses of service processes on DPUs, and the job's secret", true, true},
    SettingRow{setting::kPretendNodes, "1", "a number",
               "splits each machine's ranks into this many nodes without shared memory", true, true},
    SettingRow{setting::kPretendCaches, "none", "a number",
               "so many ranks in a row pretend to share a cache: short collectives of a node are done in two levels",
               true, true},
    SettingRow{setting::kPretendNode, "none", "a name, or a name for each rank with commas between them",
               "groups without MPI: the node on which the process pretends to be, without memory of other nodes", false,
               true},
    SettingRow{setting::kJob, "a random word", "a word", "identifies the keepers of one job on a machine", false, true},
    SettingRow{setting::kFaults, "none", "hang, crash:COLLECTIVE:TIMES", "faults in service processes, for tests",
               false, true},
    SettingRow{setting::kBuild, "build/release", "a directory", "build directory for the `outrigger` command", false,
               false},
};

// Prefixes of variables of tests, benchmarks and ./dev.
inline constexpr std::array<std::string_view, 6> kForeignPrefixes{"OUTRIGGER_TEST_",     "OUTRIGGER_BENCH_",
                                                                  "OUTRIGGER_ARM_BUILD", "OUTRIGGER_JOBS",
                                                                  "OUTRIGGER_PATIENCE",  "OUTRIGGER_SOAK_OPERATIONS"};

// Nothing: it is neither "on" nor "off".
[[nodiscard]] constexpr std::optional<bool> parse_switch(std::string_view text) {
  return text == "on" ? std::optional(true) : text == "off" ? std::optional(false) : std::nullopt;
}

// A word of OUTRIGGER_CORE_CLAIMS or OUTRIGGER_JOB: 1 to 24 letters, digits, '-' and '_'.
[[nodiscard]] bool is_claims_word(std::string_view text);
// OUTRIGGER_CORE_CLAIMS: the word, "on" if it is not set; empty: off, or not a word.
[[nodiscard]] std::string_view claims_scope(std::string_view text);

// A message about the first variable of the environment with our prefix that is not a setting; empty if there is none.
[[nodiscard]] std::string unknown_name(const char* const* environment);

// The parts of OUTRIGGER_LOG.
struct LogSetting {
  std::string_view level = "off";
  std::string_view file;  // empty: none
  [[nodiscard]] bool speaks() const { return level == "info" || level == "debug" || level == "trace"; }
};
inline constexpr std::array<std::string_view, 6> kLogLevels{"off", "error", "warn", "info", "debug", "trace"};
[[nodiscard]] LogSetting parse_log(std::string_view text);
[[nodiscard]] bool is_log_level(std::string_view word);
// "there are off, error, ...", for messages.
[[nodiscard]] std::string log_levels();

}  // namespace outrigger
