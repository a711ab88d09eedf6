#include "mpi/report/phases.hpp"

#include <array>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "mpi/report/ledger_rows.hpp"
#include "mpi/trace/traced_phases.hpp"

namespace outrigger::mpi {
namespace {

using report::LedgerRow;

struct PhaseStack {
  std::array<LedgerRow*, kMaxPhaseDepth> rows{};
  std::array<std::array<char, report::kNameBytes>, kMaxPhaseDepth> names{};
  std::array<TracedPhase, kMaxPhaseDepth> traced{};
  std::size_t depth = 0;
  std::uint64_t refused = 0;  // begun by name beyond the limit, and not ended
};
constinit thread_local PhaseStack stack;

constinit std::mutex names_mutex;

// As in the ledger: longer names that begin alike are one phase.
std::string short_name(const char* name) {
  return std::string(name).substr(0, report::kNameBytes - 1);
}

LedgerRow* row_named(const char* name) {
  static auto* rows = new std::unordered_map<std::string, LedgerRow*>;
  static LedgerRow* others = nullptr;
  const std::scoped_lock lock(names_mutex);
  const std::string known_as = short_name(name);
  const auto found = rows->find(known_as);
  if (found != rows->end()) return found->second;
  if (rows->size() < kMaxPhases) {
    LedgerRow* row = new_phase_row(known_as);
    rows->emplace(known_as, row);
    return row;
  }
  if (others == nullptr) others = new_phase_row("(other phases)");
  return others;
}

// Adds the time since the last call to the innermost phase.
void note_time() {
  LedgerRow* innermost = current_phase();
  if (innermost == nullptr) return;
  const std::int64_t passed_ns = take_phase_time_ns();
  change_row(*innermost, [passed_ns](LedgerRow& row) { row.inside_ns += passed_ns; });
}

}  // namespace

bool push_phase(const char* name) {
  if (stack.depth == kMaxPhaseDepth) return false;
  note_time();
  LedgerRow* row = counting() ? row_named(name) : nullptr;
  stack.traced[stack.depth] = begin_traced_phase(name);
  report::set_text(stack.names[stack.depth], name);
  stack.rows[stack.depth++] = row;
  set_current_phase(row);
  if (row == nullptr) return true;
  change_row(*row, [](LedgerRow& entered) { ++entered.entered; });
  return true;
}

bool pop_phase() {
  if (stack.depth == 0) return false;
  note_time();
  --stack.depth;
  end_traced_phase(stack.traced[stack.depth], stack.depth);
  set_current_phase(stack.depth == 0 ? nullptr : stack.rows[stack.depth - 1]);
  return true;
}

void begin_phase(const char* name) {
  if (!push_phase(name)) ++stack.refused;
}

void end_phase(const char* name) {
  if (stack.refused > 0) {
    --stack.refused;
    return;
  }
  const std::string known_as = short_name(name);
  std::size_t place = stack.depth;
  while (place > 0 && known_as != stack.names[place - 1].data()) --place;
  while (place > 0 && stack.depth >= place) static_cast<void>(pop_phase());
}

void note_open_phases() {
  note_time();
  for (std::size_t depth = stack.depth; depth-- > 0;) {
    end_traced_phase(std::exchange(stack.traced[depth], {}), depth);
  }
}

}  // namespace outrigger::mpi
