#include "report/headline.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>

namespace outrigger::report {
namespace {

// Of a rank, on the mean.
struct Times {
  double computed = 0;  // between the starts of offloaded operations and the waits for them
  double waited = 0;    // in offloaded calls and their waits: what is not hidden
};

std::string number(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

// Three figures with a unit.
std::string in_seconds(double seconds) {
  struct Unit {
    double size;
    const char* name;
  };
  for (const auto& [size, name] : {Unit{1, "s"}, Unit{1e-3, "ms"}, Unit{1e-6, "us"}}) {
    const double value = seconds / size;
    if (value >= 1) return number(value >= 100 ? "%.0f " : "%.3g ", value) + name;
  }
  return seconds <= 0 ? "0" : number("%.0f ns", 1e9 * seconds);
}

// Whole numbers, but for what would be 0.
std::string percent(double part) {
  if (part >= 0.0095) return number("%.0f%%", 100 * part);
  return part >= 0.0005 ? number("%.1f%%", 100 * part) : "0%";
}

std::string with_commas(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t at = 0; at < digits.size(); ++at) {
    if (at != 0 && (digits.size() - at) % 3 == 0) text += ',';
    text += digits[at];
  }
  return text;
}

std::string collective_calls(std::uint64_t calls) {
  return with_commas(calls) + (calls == 1 ? " collective call" : " collective calls");
}

double of_a_rank(double seconds, const Summary& summary) {
  return seconds / static_cast<double>(std::max<std::size_t>(1, summary.counted.size()));
}

// Of rows that are mostly offloaded: of the others' time most is the MPI's.
Times times_of(const Summary& summary) {
  Times times;
  for (const auto& [key, call] : summary.calls) {
    if (call.total.offloaded == 0 || 2 * call.total.offloaded < call.total.calls) continue;
    times.computed += of_a_rank(1e-9 * static_cast<double>(call.total.before_wait_ns), summary);
    times.waited += of_a_rank(call.seconds.sum, summary);
  }
  return times;
}

std::string hidden(const Summary& summary) {
  const auto [computed, waited] = times_of(summary);
  const double run = summary.run_seconds.sum / std::max(1U, summary.run_seconds.ranks);
  std::string not_hidden = in_seconds(waited);
  if (run > 0) not_hidden.append(" (").append(percent(waited / run)).append(" of the run)");
  std::string text;
  if (computed == 0)
    return text.append("nothing was computed meanwhile, a rank spent ").append(not_hidden + " in them");
  text.append("a rank computed for ").append(in_seconds(computed));
  return text.append(" meanwhile, and ").append(not_hidden).append(" was not hidden");
}

std::string cost(const Summary& summary) {
  std::set<std::int32_t> cores;
  for (const ServiceOfNode& service : summary.services) {
    if (service.figures.cpu >= 0 && service.figures.core_is_free != 0) cores.insert(service.figures.cpu);
  }
  std::string on;
  for (const std::int32_t core : cores) on.append(on.empty() ? " on CPU " : ", ").append(std::to_string(core));
  const std::uint32_t processes = summary.service().processes;
  return std::to_string(processes) + (processes == 1 ? " service process" : " service processes") +
         (summary.nodes > 1 ? " a node" : "") + (on.empty() ? " beside the ranks" : on) + ", " +
         in_seconds(of_a_rank(summary.cpu_calls.sum, summary)) + " of a rank's CPU time";
}

// The reason of most calls.
std::string why_none(const Summary& summary) {
  if (!summary.native_because.empty()) return ", as the whole job did";
  std::array<std::uint64_t, kNativeReasons> calls{};
  for (const auto& [key, call] : summary.calls) {
    for (std::size_t reason = 0; reason < kNativeReasons; ++reason) calls[reason] += call.total.native[reason];
  }
  calls[static_cast<std::size_t>(NativeReason::group_of_one)] = 0;
  const auto most = std::ranges::max_element(calls);
  if (*most == 0) return {};
  return std::string(": ") + kReasonNames[static_cast<std::size_t>(most - calls.begin())];
}

}  // namespace

std::string headline(const Summary& summary) {
  std::uint64_t calls = 0;  // those that could have been judged: none of one rank alone
  std::uint64_t offloaded = 0;
  for (const auto& [key, call] : summary.calls) {
    if (call.total.size == 1) continue;
    calls += call.total.calls;
    offloaded += call.total.offloaded;
  }
  if (calls == 0) return {};
  if (offloaded == 0) {
    const std::string all = std::string("Nothing was offloaded: all ").append(collective_calls(calls));
    return all + " ran natively" + why_none(summary) + ".";
  }
  return with_commas(offloaded) + " of " + collective_calls(calls) + " offloaded: " + hidden(summary) +
         ". Cost: " + cost(summary) + ". `outrigger advise` measures how much faster that is.";
}

}  // namespace outrigger::report
