#include "report/json.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "report/names.hpp"

namespace outrigger::report {
namespace {

using Json = nlohmann::ordered_json;

template <class Value>
Json json(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

// Rounded to nanoseconds: a double holds no more digits.
double seconds(double value) {
  return std::round(1e9 * value) / 1e9;
}

double seconds_of(std::int64_t nanoseconds) {
  return seconds(1e-9 * static_cast<double>(nanoseconds));
}

Json json(const Spread& spread) {
  return {{"sum", seconds(spread.sum)}, {"min", seconds(spread.min)}, {"max", seconds(spread.max)},
          {"min_rank", spread.least},   {"max_rank", spread.most},    {"ranks", spread.ranks}};
}

Json json(const WireUse& use) {
  return {{"kind", use.route.kind()}, {"transports", transports_of(use.route)}, {"nodes", use.nodes}};
}

enum class Zeros : bool { left_out, shown };

template <std::size_t count>
Json counts_by_name(const std::array<const char*, count>& names, const std::array<std::uint64_t, count>& values,
                    Zeros zeros) {
  Json counts = Json::object();
  for (std::size_t i = 0; i < count; ++i) {
    if (values[i] != 0 || zeros == Zeros::shown) counts[names[i]] = values[i];
  }
  return counts;
}

void add_communicator(Json& row, const LedgerRow& total) {
  row["communicator"] = communicator_of(total);
  row["group"] = text_of(total.group);
  row["size"] = total.size;
}

Json json_collective(std::size_t collective, const CollectiveFigures& figures) {
  const LedgerRow& total = figures.total;
  Json row{{"collective", kCollectives[collective].name}};
  add_communicator(row, total);
  row["calls"] = total.calls;
  row["offloaded"] = total.offloaded;
  row["algorithms"] = counts_by_name(kAlgorithmNames, total.algorithms, Zeros::left_out);
  row["native"] = counts_by_name(kReasonNames, total.native, Zeros::left_out);
  row["bytes"] = counts_by_name(kByteNames, total.reached, Zeros::shown);
  row["late_announcements"] = total.late;
  row["post_seconds"] = json(figures.post);
  row["completion_seconds"] = json(figures.completion);
  row["late_seconds"] = json(figures.late);
  return row;
}

Json json_call(const CallFigures& figures) {
  static constexpr std::array<const char*, kCallForms> kForms{"blocking", "nonblocking", "persistent"};
  const LedgerRow& total = figures.total;
  const CallKind kind = call_kind_at(total.kind);
  const std::optional<Collective> collective = offloaded_as(kind.call);
  Json row{{"call", name_of(kind)},
           {"form", kForms[static_cast<std::size_t>(kind.form)]},
           {"collective", collective ? Json(outrigger::name_of(*collective)) : Json()}};
  add_communicator(row, total);
  row["calls"] = total.calls;
  row["offloaded"] = total.offloaded;
  row["by_ranks"] = total.by_ranks;
  row["saved_seconds"] = seconds_of(total.saved_ns);
  row["native"] = counts_by_name(kReasonNames, total.native, Zeros::left_out);
  row["bytes"] = {
      {"calls", total.measured}, {"sum", total.bytes}, {"min", total.least_bytes}, {"max", total.most_bytes}};
  row["seconds"] = json(figures.seconds);
  row["tests"] = {{"calls", total.tests}, {"seconds", seconds_of(total.test_ns)}};
  row["before_wait"] = {{"operations", total.waited}, {"seconds", seconds_of(total.before_wait_ns)}};
  return row;
}

Json json_place(const std::string& object, std::uint64_t offset) {
  return object.empty() ? Json() : Json{{"object", object}, {"offset", offset}};
}

// Null if windows were not measured.
Json json_windows(const WindowFigures& windows) {
  const Json without = counts_by_name(kNoWindow, windows.without, Zeros::left_out);
  if (windows.calls == 0 && without.empty()) return {};
  return {{"calls", windows.calls},
          {"ends", counts_by_name(kWindowEnds, windows.ends, Zeros::shown)},
          {"without", without},
          {"unused_seconds", seconds_of(windows.unused_ns)},
          {"spent_seconds", seconds_of(windows.spent_ns)},
          {"hidden_seconds", seconds_of(windows.hidden_ns)}};
}

Json json_site(const SiteKey& site, const CallFigures& figures) {
  const LedgerRow& total = figures.total;
  return {{"call", name_of(call_kind_at(site.kind))},
          {"waits", site.waits},
          {"place", json_place(site.object, site.offset)},
          {"caller", json_place(site.caller_object, site.caller_offset)},
          {"calls", total.calls},
          {"offloaded", total.offloaded},
          {"by_ranks", total.by_ranks},
          {"bytes",
           {{"calls", total.measured}, {"sum", total.bytes}, {"min", total.least_bytes}, {"max", total.most_bytes}}},
          {"seconds", json(figures.seconds)},
          {"windows", json_windows(total.windows)}};
}

Json json_phase(const std::string& name, const PhaseFigures& phase) {
  return {{"phase", name},
          {"entered", phase.total.entered},
          {"calls", phase.total.calls},
          {"offloaded", phase.total.offloaded},
          {"bytes", phase.total.bytes},
          {"seconds", json(phase.inside)},
          {"collective_seconds", json(phase.collectives)},
          {"outside_seconds", json(phase.outside)},
          {"meetings", json(phase.meetings)},
          {"meeting_seconds", json(phase.meeting)},
          {"other_seconds", json(phase.other)}};
}

Json json(const SharedHeapCounts& heap) {
  return {{"allocations", heap.allocations}, {"bytes", heap.bytes}, {"refused", heap.refused}, {"forks", heap.forks}};
}

Json json(const WaitSums& waits) {
  return {{"kind", kWaitKinds[waits.kind]},
          {"setting", waits.setting},
          {"naps", waits.naps},
          {"slept_seconds", json(waits.slept)},
          {"yielded_seconds", json(waits.yielded)},
          {"seconds", json(waits.waited)}};
}

Json json(const Ending& ended) {
  return {{"how", ended.how},
          {"code", json(ended.code)},
          {"signal", json(ended.signal)},
          {"rank", json(ended.rank)},
          {"text", ended.text}};
}

Json json(const ServiceFigures& service) {
  return {{"processes", service.processes},
          {"core", service.cpu},
          {"core_is_free", service.core_is_free != 0},
          {"cross_memory_attach", service.cross_memory_attach != 0},
          {"xpmem", service.xpmem != 0}};
}

Json json(const ServiceOfNode& service) {
  const ServiceFigures& figures = service.figures;
  const bool measured = figures.core_taken_ppm != ServiceFigures::kNotMeasured;
  return {{"node", service.node},
          {"number", figures.sp},
          {"core", figures.cpu},
          {"core_is_free", figures.core_is_free != 0},
          {"core_taken", measured ? Json(figures.core_taken_ppm / 1e6) : Json()},
          {"other_job", figures.other_job != 0 ? Json(figures.other_job) : Json()},
          {"restarts", figures.restarts},
          {"warning", text_in(figures.warning)}};
}

template <class Rows, class Row>
Json list(const Rows& rows, const Row& as_json) {
  Json result = Json::array();
  for (const auto& row : rows) result.push_back(as_json(row));
  return result;
}

}  // namespace

std::string as_json(const Summary& summary) {
  Json report{{"version", 1},
              {"mpi", summary.mpi},
              {"program", summary.program},
              {"ranks", summary.world_size},
              {"nodes", summary.nodes}};
  report["ended"] = json(summary.ended);
  report["counted_ranks"] = ranges_of(summary.counted);
  report["native_because"] = summary.native_because;
  report["run_seconds"] = json(summary.run_seconds);
  report["outside_seconds"] = json(summary.outside_seconds);
  report["wire"] = list(summary.wire, [](const WireUse& use) { return json(use); });
  if (summary.heap_is_used) report["shared_heap"] = json(summary.heap);
  report["copied_while_waiting"] = summary.waiting_bytes;
  report["copied_on_spare_cores"] = summary.spare_bytes;
  report["in_huge_pages"] = summary.huge_bytes;
  report["waits"] = json(summary.waits);
  report["service"] = json(summary.service());
  report["services"] = list(summary.services, [](const ServiceOfNode& service) { return json(service); });
  report["calls"] = list(summary.calls, [](const auto& row) { return json_call(row.second); });
  report["collectives"] =
      list(summary.collectives, [](const auto& row) { return json_collective(row.first.first, row.second); });
  report["phases"] = list(summary.phases, [](const auto& phase) { return json_phase(phase.first, phase.second); });
  report["sites"] = list(summary.sites, [](const auto& site) { return json_site(site.first, site.second); });
  report["rank_cpu_seconds"] = {{"offloaded_calls", json(summary.cpu_calls)}, {"process", json(summary.cpu_process)}};
  // Names come from the program and may not be UTF-8.
  return report.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace outrigger::report
