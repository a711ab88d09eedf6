// What the user asked for by environment variables. Read once, in MPI_Init; must be equal on all ranks (its digest is
// compared there and travels with every operation).
// protocol/options/settings.hpp has the table of them.
#pragma once

#include <cstdint>
#include <string>

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
  std::string service_cpus;
  std::string claims_scope;  // empty: the keeper tells other jobs nothing of its cores
  std::string claims_job;    // empty: it is not of an `outrigger run`
  SelectionTable selection;
  bool measured_choice = true;
  bool early_trials = false;  // whatever they may cost
  bool blocking = true;       // some blocking forms may be offloaded
  ReachSetting memory;
  std::string report;  // empty: none
  std::string trace;   // likewise
  bool live = false;   // counted without a report, too
  std::uint32_t init_timeout_ms = setting::kInitTimeoutMs;
  std::string daemon_path;
  std::uint32_t pretend_nodes = 1;
  bool verbose = false;
  std::string dpus;  // empty: no DPU
  Secret dpu_secret{};
  std::string transports;  // to the DPU; empty: what UCX's own settings name

  // Of everything that every rank must know alike.
  [[nodiscard]] std::uint64_t digest() const;
};

// HOST:PORT of the DPU for a host, from the list in OUTRIGGER_DPUS: of those that name it, or `localhost`, the
// `number`-th, from 0. Error: there is none.
[[nodiscard]] Result<std::string> dpu_for(std::string_view dpus, std::string_view host, std::uint32_t number);

// OUTRIGGER_ENABLE, before anything else is looked at.
[[nodiscard]] bool enabled_by_environment();

// A line for a variable whose name is none of ours, though it looks so; empty: there is none.
[[nodiscard]] std::string unknown_setting();

// An error names the variable, its value and what is valid, or what to write for one of another version.
[[nodiscard]] Result<Config> read_config();
// Of the report, also where the rest of the configuration cannot be read. Empty: none was asked for.
[[nodiscard]] std::string report_path();
// The same of the trace.
[[nodiscard]] std::string trace_path();

}  // namespace outrigger::mpi
