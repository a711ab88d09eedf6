#include "report/table.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "report/headline.hpp"
#include "report/names.hpp"

namespace outrigger::report {
namespace {

using Number = unsigned long long;

template <class... Values>
void append_line(std::string& text, const char* format, Values... values) {
  std::array<char, 400> line{};
  std::snprintf(line.data(), line.size(), format, values...);
  text += line.data();
}

std::string reasons_of(const LedgerRow& row) {
  std::string text;
  for (std::size_t i = 0; i < kNativeReasons; ++i) {
    if (row.native[i] == 0) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(row.native[i]) + " " + kReasonNames[i];
  }
  return text.empty() ? "-" : text;
}

void append_collective(std::string& text, std::size_t collective, const CollectiveFigures& row) {
  const LedgerRow& total = row.total;
  const double calls = static_cast<double>(std::max<std::uint64_t>(1, total.offloaded));
  append_line(text, "%-11s %-24.24s %5u %9llu %9llu  %-28.28s %11.2f %11.2f %8llu\n",
              kCollectives[collective].name.data(), communicator_of(total).c_str(), total.size,
              static_cast<Number>(total.calls), static_cast<Number>(total.offloaded), reasons_of(total).c_str(),
              1e6 * row.post.sum / calls, 1e6 * row.completion.sum / calls, static_cast<Number>(total.late));
  text += "           by:";
  for (std::size_t i = 0; i < kAlgorithms.size(); ++i) {
    if (total.algorithms[i] == 0) continue;
    append_line(text, " %s %llu", kAlgorithmNames[i], static_cast<Number>(total.algorithms[i]));
  }
  text += total.offloaded == 0 ? " -;" : ";";
  text += " bytes:";
  for (std::size_t i = 0; i < kByteKinds; ++i) {
    append_line(text, " %s %llu", kByteNames[i], static_cast<Number>(total.reached[i]));
  }
  text += "\n";
}

void append_call(std::string& text, const CallFigures& row) {
  const LedgerRow& total = row.total;
  const double ranks = std::max(1U, row.seconds.ranks);
  const std::uint64_t bytes = total.measured == 0 ? 0 : total.bytes / total.measured;
  append_line(text, "%-28s %-22.22s %5u %9llu %11llu %10.6f %10.6f (%4u) %10.6f (%4u)  %s\n",
              name_of(call_kind_at(total.kind)).c_str(), communicator_of(total).c_str(), total.size,
              static_cast<Number>(total.calls), static_cast<Number>(bytes), row.seconds.sum / ranks, row.seconds.min,
              row.seconds.least, row.seconds.max, row.seconds.most, reasons_of(total).c_str());
}

void append_phases(std::string& text, const Summary& summary) {
  if (summary.phases.empty()) return;
  append_line(text, "%-28s %9s %9s %9s %12s %14s\n", "phase", "entered", "calls", "offloaded", "mean s",
              "collectives s");
  for (const auto& [name, phase] : summary.phases) {
    const double ranks = std::max(1U, phase.inside.ranks);
    append_line(text, "%-28.28s %9llu %9llu %9llu %12.6f %14.6f\n", name.c_str(),
                static_cast<Number>(phase.total.entered), static_cast<Number>(phase.total.calls),
                static_cast<Number>(phase.total.offloaded), phase.inside.sum / ranks, phase.collectives.sum / ranks);
  }
}

void append_services(std::string& text, const Summary& summary) {
  for (const ServiceOfNode& service : summary.services) {
    if (service.figures.other_job != 0) {
      append_line(text, "service process %u of node %u: another job had its core, too\n", service.figures.sp,
                  service.node);
    }
    if (service.figures.restarts != 0) {
      append_line(text, "service process %u of node %u: killed %u times, and replaced\n", service.figures.sp,
                  service.node, service.figures.restarts);
    }
    if (const std::string warning = text_in(service.figures.warning); !warning.empty()) {
      append_line(text, "service process %u of node %u: %s\n", service.figures.sp, service.node, warning.c_str());
    }
    if (service.figures.core_taken_ppm == ServiceFigures::kNotMeasured) continue;
    append_line(text, "service process %u of node %u: its core was taken by others for %.0f%% of the time\n",
                service.figures.sp, service.node, 1e-4 * service.figures.core_taken_ppm);
  }
}

void append_memory(std::string& text, const Summary& summary) {
  if (summary.heap_is_used) {
    append_line(text, "shared heap: %llu allocations, %llu bytes; %llu refused; ended by %llu forks\n",
                static_cast<Number>(summary.heap.allocations), static_cast<Number>(summary.heap.bytes),
                static_cast<Number>(summary.heap.refused), static_cast<Number>(summary.heap.forks));
  }
  if (summary.waiting_bytes != 0) {
    append_line(text, "copied by ranks while they waited: %llu bytes, counted with copier\n",
                static_cast<Number>(summary.waiting_bytes));
  }
  if (summary.huge_bytes != 0) {
    append_line(text, "buffers moved to huge pages: %llu bytes\n", static_cast<Number>(summary.huge_bytes));
  }
}

// "0 to 2, 5"; "none".
std::string in_words(const std::vector<Range>& ranges) {
  std::string text;
  for (const auto& [first, last] : ranges) {
    text += (text.empty() ? "" : ", ") + std::to_string(first);
    if (last != first) text += " to " + std::to_string(last);
  }
  return text.empty() ? "none" : text;
}

}  // namespace

std::string text_of(const Ending& ended) {
  std::string text = ended.how;
  if (ended.how == "aborted") text = "MPI_Abort with code " + std::to_string(ended.code.value_or(0));
  if (ended.how == "signal") text = "signal " + std::to_string(ended.signal.value_or(0));
  if (ended.rank) text += " by rank " + std::to_string(*ended.rank);
  return ended.text.empty() ? text : text + ": " + ended.text;
}

std::string as_table(const Summary& summary) {
  std::string text;
  if (const std::string first = headline(summary); !first.empty()) text += "outrigger: " + first + "\n";
  append_line(text, "outrigger: report of %u ranks, %u service process(es)\n", summary.world_size,
              summary.service().processes);
  if (summary.ended.how != "finalized") {
    text += "ended: " + text_of(summary.ended) + "\n";
  }
  if (summary.counted.size() != summary.world_size) {
    text += "counted are ranks " + in_words(ranges_of(summary.counted)) + " of " + std::to_string(summary.world_size) +
            "\n";
  }
  if (!summary.native_because.empty()) text += "the job ran natively: " + summary.native_because + "\n";
  append_line(text, "%-11s %-24s %5s %9s %9s  %-28s %11s %11s %8s\n", "collective", "communicator", "size", "calls",
              "offloaded", "native", "post us", "wait us", "late");
  for (const auto& [key, row] : summary.collectives) append_collective(text, key.first, row);
  append_line(text, "%-28s %-22s %5s %9s %11s %10s %17s %17s  %s\n", "call", "communicator", "size", "calls",
              "bytes each", "mean s", "least s (rank)", "most s (rank)", "native");
  for (const auto& [key, row] : summary.calls) append_call(text, row);
  append_phases(text, summary);
  append_memory(text, summary);
  append_services(text, summary);
  if (summary.nodes > 1) text += "wire: " + wire_text(summary.wire, summary.nodes) + "\n";
  append_line(text, "rank CPU seconds: %.6f in offloaded calls (most on one rank %.6f), %.3f in the processes\n",
              summary.cpu_calls.sum, summary.cpu_calls.max, summary.cpu_process.sum);
  return text;
}

}  // namespace outrigger::report
