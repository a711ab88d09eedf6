// Settings from environment variables. Read once, in MPI_Init; must be equal on all ranks (the digest is compared there
// and is part of every operation). protocol/options/settings.hpp has their table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "protocol/options/reach.hpp"
#include "protocol/options/selection.hpp"
#include "protocol/options/settings.hpp"
#include "protocol/wire/control.hpp"

namespace outrigger::mpi {

struct Config {
  std::uint32_t services = 0;  // 0: the keeper decides
  bool without_services = false;
  // The ranks of a node do blocking collectives by themselves: where trials show that it pays, or wherever they can.
  enum class Intranode : std::uint8_t { off, on, always };
  Intranode intranode = Intranode::on;
  // The order of their floating-point sums and products: the MPI's, or our own.
  enum class Sums : std::uint8_t { native, any };
  Sums sums = Sums::native;
  // Ranks give their cores away while they wait in their MPI: automatic: where they share cores.
  enum class Wait : std::uint8_t { automatic, polite, native };
  Wait wait = Wait::automatic;
  std::string service_cpus;
  std::vector<int> copy_cpus;  // for copiers, with service processes on a DPU
  std::string claims_scope;    // empty: the keeper does not tell other jobs its cores
  std::string claims_job;      // empty: not started by `outrigger run`
  SelectionTable selection;
  bool measured_choice = true;
  bool early_trials = false;  // at any cost
  bool blocking = true;       // some blocking forms may be offloaded
  ReachSetting memory;
  std::string report;  // empty: none
  std::string trace;   // likewise
  bool live = false;   // counters without a report file
  std::uint32_t init_timeout_ms = setting::kInitTimeoutMs;
  std::string daemon_path;
  std::uint32_t pretend_nodes = 1;
  std::uint32_t pretend_caches = 0;  // ranks that share one; 0: as it is
  bool verbose = false;
  std::string dpus;  // empty: no DPU
  Secret dpu_secret{};
  std::string transports;  // to the DPU; empty: UCX's own settings

  // Digest of all values that must be equal on all ranks.
  [[nodiscard]] std::uint64_t digest() const;
};

// HOST:PORT of the DPU for a host, from the list in OUTRIGGER_DPUS: the `number`-th, from 0, of the entries for that
// host or `localhost`. Error: there is none.
[[nodiscard]] Result<std::string> dpu_for(std::string_view dpus, std::string_view host, std::uint32_t number);

// OUTRIGGER_ENABLE, before all other settings.
[[nodiscard]] bool enabled_by_environment();

// A message about a variable that looks like a setting but is none; empty if there is none.
[[nodiscard]] std::string unknown_setting();

// An error names the variable, its value and the valid ones, or the change for another version.
[[nodiscard]] Result<Config> read_config();
// Path of the report, even if the rest of the configuration is invalid. Empty: no report.
[[nodiscard]] std::string report_path();
// The same for the trace.
[[nodiscard]] std::string trace_path();

}  // namespace outrigger::mpi
