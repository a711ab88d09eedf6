#include "report/json.hpp"

#include <array>
#include <cstdio>
#include <optional>

#include "report/names.hpp"

namespace outrigger::report {
namespace {

// A list with a row on each line.
template <class Rows, class Row>
std::string lines(const Rows& rows, const Row& as_text) {
  std::string text = "[";
  const char* separator = "\n    ";
  for (const auto& row : rows) {
    text += separator + as_text(row);
    separator = ",\n    ";
  }
  return text + "]";
}

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    result += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
  }
  return result + "\"";
}

std::string json(bool value) {
  return value ? "true" : "false";
}

template <class Number>
std::string json(const std::optional<Number>& number) {
  return number ? std::to_string(*number) : "null";
}

std::string json(const Spread& spread) {
  std::array<char, 200> text{};
  std::snprintf(text.data(), text.size(),
                R"({"sum": %.9f, "min": %.9f, "max": %.9f, "min_rank": %u, "max_rank": %u, "ranks": %u})", spread.sum,
                spread.min, spread.max, spread.least, spread.most, spread.ranks);
  return text.data();
}

std::string json(const WireUse& use) {
  return "{\"kind\": " + quoted(use.route.kind()) + ", \"transports\": " + quoted(transports_of(use.route)) +
         ", \"nodes\": " + std::to_string(use.nodes) + "}";
}

std::string json(GroupId id) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "\"%016llx%016llx\"", static_cast<unsigned long long>(id.high),
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

std::string json_communicator(const LedgerRow& row) {
  return "\"communicator\": " + quoted(communicator_of(row)) + ", \"group\": " + json(row.group) +
         ", \"size\": " + std::to_string(row.size);
}

std::string json_collective(std::size_t collective, const CollectiveFigures& row) {
  return "{\"collective\": " + quoted(kCollectives[collective].name) + ", " + json_communicator(row.total) +
         ",\n     \"calls\": " + std::to_string(row.total.calls) +
         ", \"offloaded\": " + std::to_string(row.total.offloaded) +
         ", \"algorithms\": " + json_counts(kAlgorithmNames, row.total.algorithms, false) +
         ", \"native\": " + json_counts(kReasonNames, row.total.native, false) +
         ",\n     \"bytes\": " + json_counts(kByteNames, row.total.reached, true) +
         ", \"late_announcements\": " + std::to_string(row.total.late) + ",\n     \"post_seconds\": " + json(row.post) +
         ",\n     \"completion_seconds\": " + json(row.completion) + "}";
}

// A number of calls or operations, and their seconds on all ranks.
std::string json_seconds(const char* what, std::uint64_t number, std::int64_t nanoseconds) {
  std::array<char, 100> text{};
  std::snprintf(text.data(), text.size(), R"({"%s": %llu, "seconds": %.9f})", what,
                static_cast<unsigned long long>(number), 1e-9 * static_cast<double>(nanoseconds));
  return text.data();
}

std::string json_call(const CallFigures& row) {
  static constexpr std::array<const char*, kCallForms> kForms{"blocking", "nonblocking", "persistent"};
  const CallKind kind = call_kind_at(row.total.kind);
  const std::optional<Collective> collective = offloaded_as(kind.call);
  const LedgerRow& total = row.total;
  return "{\"call\": " + quoted(name_of(kind)) + ", \"form\": " + quoted(kForms[static_cast<std::size_t>(kind.form)]) +
         ", \"collective\": " + (collective ? quoted(outrigger::name_of(*collective)) : "null") + ", " +
         json_communicator(total) + ",\n     \"calls\": " + std::to_string(total.calls) +
         ", \"offloaded\": " + std::to_string(total.offloaded) +
         ", \"native\": " + json_counts(kReasonNames, total.native, false) +
         ",\n     \"bytes\": {\"calls\": " + std::to_string(total.measured) +
         ", \"sum\": " + std::to_string(total.bytes) + ", \"min\": " + std::to_string(total.least_bytes) +
         ", \"max\": " + std::to_string(total.most_bytes) + "},\n     \"seconds\": " + json(row.seconds) +
         ",\n     \"tests\": " + json_seconds("calls", total.tests, total.test_ns) +
         ", \"before_wait\": " + json_seconds("operations", total.waited, total.before_wait_ns) + "}";
}

std::string json_phase(const std::string& name, const PhaseFigures& phase) {
  return "{\"phase\": " + quoted(name) + ", \"entered\": " + std::to_string(phase.total.entered) +
         ", \"calls\": " + std::to_string(phase.total.calls) +
         ", \"offloaded\": " + std::to_string(phase.total.offloaded) +
         ", \"bytes\": " + std::to_string(phase.total.bytes) + ",\n     \"seconds\": " + json(phase.inside) +
         ",\n     \"collective_seconds\": " + json(phase.collectives) + "}";
}

std::string json(const SharedHeapCounts& heap) {
  return "{\"allocations\": " + std::to_string(heap.allocations) + ", \"bytes\": " + std::to_string(heap.bytes) +
         ", \"refused\": " + std::to_string(heap.refused) + ", \"forks\": " + std::to_string(heap.forks) + "}";
}

std::string json(const Ending& ended) {
  return "{\"how\": " + quoted(ended.how) + ", \"code\": " + json(ended.code) + ", \"signal\": " + json(ended.signal) +
         ", \"rank\": " + json(ended.rank) + ", \"text\": " + quoted(ended.text) + "}";
}

std::string json(const ServiceFigures& service) {
  return "{\"processes\": " + std::to_string(service.processes) + ", \"core\": " + std::to_string(service.cpu) +
         ", \"core_is_free\": " + json(service.core_is_free != 0) +
         ", \"cross_memory_attach\": " + json(service.cross_memory_attach != 0) +
         ", \"xpmem\": " + json(service.xpmem != 0) + "}";
}

std::string json(const ServiceOfNode& service) {
  std::string taken = "null";
  if (service.figures.core_taken_ppm != ServiceFigures::kNotMeasured) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.6f", 1e-6 * service.figures.core_taken_ppm);
    taken = text.data();
  }
  return "{\"node\": " + std::to_string(service.node) + ", \"number\": " + std::to_string(service.figures.sp) +
         ", \"core\": " + std::to_string(service.figures.cpu) +
         ", \"core_is_free\": " + json(service.figures.core_is_free != 0) + ", \"core_taken\": " + taken +
         ", \"other_job\": " + (service.figures.other_job == 0 ? "null" : std::to_string(service.figures.other_job)) +
         ", \"restarts\": " + std::to_string(service.figures.restarts) +
         ", \"warning\": " + quoted(text_in(service.figures.warning)) + "}";
}

std::string json(const std::vector<Range>& ranges) {
  std::string text;
  for (const auto& [first, last] : ranges) {
    text += (text.empty() ? "[" : ", [") + std::to_string(first) + ", " + std::to_string(last) + "]";
  }
  return "[" + text + "]";
}

}  // namespace

std::string as_json(const Summary& summary) {
  return "{\n  \"version\": 1,\n  \"mpi\": " + quoted(summary.mpi) +
         ",\n  \"ranks\": " + std::to_string(summary.world_size) + ",\n  \"nodes\": " + std::to_string(summary.nodes) +
         ",\n  \"ended\": " + json(summary.ended) + ",\n  \"counted_ranks\": " + json(ranges_of(summary.counted)) +
         ",\n  \"native_because\": " + quoted(summary.native_because) +
         ",\n  \"run_seconds\": " + json(summary.run_seconds) +
         ",\n  \"wire\": " + lines(summary.wire, [](const WireUse& use) { return json(use); }) +
         (summary.heap_is_used ? ",\n  \"shared_heap\": " + json(summary.heap) : std::string()) +
         ",\n  \"copied_while_waiting\": " + std::to_string(summary.waiting_bytes) +
         ",\n  \"in_huge_pages\": " + std::to_string(summary.huge_bytes) +
         ",\n  \"service\": " + json(summary.service()) +
         ",\n  \"services\": " + lines(summary.services, [](const ServiceOfNode& service) { return json(service); }) +
         ",\n  \"calls\": " + lines(summary.calls, [](const auto& row) { return json_call(row.second); }) +
         ",\n  \"collectives\": " +
         lines(summary.collectives, [](const auto& row) { return json_collective(row.first.first, row.second); }) +
         ",\n  \"phases\": " +
         lines(summary.phases, [](const auto& phase) { return json_phase(phase.first, phase.second); }) +
         ",\n  \"rank_cpu_seconds\": {\"offloaded_calls\": " + json(summary.cpu_calls) +
         ", \"process\": " + json(summary.cpu_process) + "}\n}\n";
}

}  // namespace outrigger::report
