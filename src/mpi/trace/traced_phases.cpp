#include "mpi/trace/traced_phases.hpp"

#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "mpi/report/counting.hpp"
#include "mpi/trace/tracing.hpp"

namespace outrigger::mpi {
namespace {

constinit std::mutex traced_names_mutex;

// The last number is for all names beyond the limit.
std::uint16_t number_of(std::string_view name) {
  static auto* known = new std::unordered_map<std::string, std::uint16_t>;
  const std::scoped_lock lock(traced_names_mutex);
  const std::string short_name(name.substr(0, report::kNameBytes - 1));
  const auto found = known->find(short_name);
  if (found != known->end()) return found->second;
  constexpr std::uint32_t kLast = trace::kPhaseNames - 1;
  trace::Header& header = trace_memory().header();
  const std::uint32_t count = header.phases.load(std::memory_order_relaxed);
  if (count > kLast) return kLast;
  report::set_text(header.phase_names[count], count == kLast ? "(other phases)" : short_name);
  header.phases.store(count + 1, std::memory_order_release);
  const auto number = static_cast<std::uint16_t>(count);
  if (number < kLast) known->emplace(short_name, number);
  return number;
}

}  // namespace

TracedPhase begin_traced_phase(const char* name) {
  if (!tracing()) return {};
  return {monotonic_ns(), number_of(name)};
}

void end_traced_phase(const TracedPhase& phase, std::size_t depth) {
  if (phase.began_ns == 0 || !tracing()) return;
  trace::Event event;
  event.kind = static_cast<std::uint8_t>(trace::EventKind::phase);
  event.began_ns = phase.began_ns;
  event.ended_ns = monotonic_ns();
  event.name = phase.name;
  event.number = static_cast<std::uint32_t>(depth);
  add_event(event);
}

}  // namespace outrigger::mpi
