#include "report/counters.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "report/names.hpp"

namespace outrigger::report {
namespace {

constexpr const char* kPrefix = "outrigger_";

std::uint64_t not_negative(std::int64_t time) {
  return time < 0 ? 0 : static_cast<std::uint64_t>(time);
}

// "other operation or datatype" becomes "other_operation_or_datatype".
std::string as_name(std::string_view words) {
  std::string name(words);
  for (char& letter : name) letter = letter == ' ' ? '_' : static_cast<char>(std::tolower(letter));
  return name;
}

Counter counter(const char* name, CounterUnit unit, const char* description,
                std::uint64_t (*of)(const LedgerRow&, std::size_t)) {
  return {std::string(kPrefix) + name, unit, description, of, 0};
}

std::vector<Counter> totals() {
  using enum CounterUnit;
  return {
      counter("calls", calls, "Calls of collectives; of persistent ones, starts",
              [](const LedgerRow& row, std::size_t) { return row.calls; }),
      counter("offloaded", calls, "Those served by service processes",
              [](const LedgerRow& row, std::size_t) { return row.offloaded; }),
      counter("by_ranks", calls, "Those done by the ranks of a node themselves",
              [](const LedgerRow& row, std::size_t) { return row.by_ranks; }),
      counter("native", calls, "Those left to the MPI",
              [](const LedgerRow& row, std::size_t) {
                return row.calls - std::min(row.calls, row.offloaded + row.by_ranks);
              }),
      counter("bytes", bytes, "Bytes that this rank sent in them, or received if a call sends nothing",
              [](const LedgerRow& row, std::size_t) { return row.bytes; }),
      counter("exposed_time", nanoseconds,
              "Time in collectives and in calls that wait for them or test them: not hidden",
              [](const LedgerRow& row, std::size_t) { return not_negative(row.time_ns()); }),
      counter("before_wait_time", nanoseconds,
              "Time from the start of nonblocking collectives to the call that waits for them: can be hidden",
              [](const LedgerRow& row, std::size_t) { return not_negative(row.before_wait_ns); }),
      counter("waits", operations, "Nonblocking collectives completed by a waiting call",
              [](const LedgerRow& row, std::size_t) { return row.waited; }),
      counter("tests", calls, "Calls that test nonblocking collectives",
              [](const LedgerRow& row, std::size_t) { return row.tests; }),
      counter("hidden_time", nanoseconds,
              "Time in which offloaded collectives made progress while the program did something else",
              [](const LedgerRow& row, std::size_t) { return not_negative(row.hidden_ns); }),
      counter("late_time", nanoseconds,
              "Time from the first rank's post of an offloaded collective to this rank's: others wait for it",
              [](const LedgerRow& row, std::size_t) { return not_negative(row.late_ns); }),
      counter("late_arrivals", arrivals, "Peers that were ready before this rank posted an offloaded collective",
              [](const LedgerRow& row, std::size_t) { return row.late; }),
  };
}

void add_reasons(std::vector<Counter>& all) {
  for (std::size_t reason = 1; reason < kNativeReasons; ++reason) {
    all.push_back({std::string(kPrefix) + "native_" + as_name(kReasonNames[reason]), CounterUnit::calls,
                   std::string("Calls left to the MPI for this reason: ") + kReasonNames[reason],
                   [](const LedgerRow& row, std::size_t which) { return row.native[which]; }, reason});
  }
}

void add_reaches(std::vector<Counter>& all) {
  for (std::size_t kind = 0; kind < kByteKinds; ++kind) {
    std::string description = std::string("Bytes received in offloaded collectives by ") + kByteNames[kind];
    if (kind == kOwnBytes) description = "Bytes of offloaded collectives from the rank to itself";
    if (kind == kBounceBytes) description = "Bytes of offloaded collectives that were packed or unpacked";
    all.push_back({std::string(kPrefix) + "bytes_" + kByteNames[kind], CounterUnit::bytes, std::move(description),
                   [](const LedgerRow& row, std::size_t which) { return row.reached[which]; }, kind});
  }
}

std::vector<Counter> make_counters() {
  std::vector<Counter> all = totals();
  add_reasons(all);
  add_reaches(all);
  return all;
}

}  // namespace

const char* name_of(CounterUnit unit) {
  static constexpr std::array<const char*, 5> kNames{"calls", "operations", "bytes", "nanoseconds", "arrivals"};
  return kNames[static_cast<std::size_t>(unit)];
}

const std::vector<Counter>& counters() {
  static const auto* all = new std::vector<Counter>(make_counters());
  return *all;
}

std::optional<std::size_t> find_counter(std::string_view name) {
  const auto found = std::ranges::find(counters(), name, &Counter::name);
  if (found == counters().end()) return std::nullopt;
  return static_cast<std::size_t>(found - counters().begin());
}

}  // namespace outrigger::report
