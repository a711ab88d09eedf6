#include "report/summary.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

namespace outrigger::report {
namespace {

using Key = std::pair<std::size_t, GroupId>;

// Larger times are invalid, and must not overflow sums.
constexpr std::int64_t kMostNs = std::int64_t{1} << 60U;

std::int64_t possible(std::int64_t nanoseconds) {
  return std::clamp<std::int64_t>(nanoseconds, 0, kMostNs);
}

// The sum over many ranks may overflow.
void add(std::int64_t& sum_ns, std::int64_t nanoseconds) {
  sum_ns += std::min(nanoseconds, std::numeric_limits<std::int64_t>::max() - sum_ns);
}

void keep_possible(LedgerRow& row) {
  for (std::int64_t* time :
       {&row.post_ns, &row.completion_ns, &row.call_ns, &row.wait_ns, &row.test_ns, &row.before_wait_ns, &row.inside_ns,
        &row.meeting_ns, &row.hidden_ns, &row.late_ns, &row.most_late_ns, &row.saved_ns, &row.windows.unused_ns,
        &row.windows.spent_ns, &row.windows.hidden_ns}) {
    *time = possible(*time);
  }
}

double seconds(std::int64_t nanoseconds) {
  return 1e-9 * static_cast<double>(nanoseconds);
}

template <std::size_t count>
void add(std::array<std::uint64_t, count>& sums, const std::array<std::uint64_t, count>& values) {
  for (std::size_t i = 0; i < count; ++i) sums[i] += values[i];
}

void add(WindowFigures& total, const WindowFigures& row) {
  total.calls += row.calls;
  add(total.ends, row.ends);
  add(total.without, row.without);
  add(total.unused_ns, row.unused_ns);
  add(total.spent_ns, row.spent_ns);
  add(total.hidden_ns, row.hidden_ns);
}

void add(LedgerRow& total, const LedgerRow& row) {
  if (total.name[0] == '\0') total.name = row.name;
  total.group = row.group;
  total.size = row.size;
  total.calls += row.calls;
  total.offloaded += row.offloaded;
  total.by_ranks += row.by_ranks;
  add(total.saved_ns, row.saved_ns);
  add(total.native, row.native);
  add(total.algorithms, row.algorithms);
  add(total.reached, row.reached);
  total.alone += row.alone;
  total.late += row.late;
  add(total.post_ns, row.post_ns);
  add(total.completion_ns, row.completion_ns);
  total.tests += row.tests;
  add(total.test_ns, row.test_ns);
  total.waited += row.waited;
  add(total.before_wait_ns, row.before_wait_ns);
  add(total.hidden_ns, row.hidden_ns);
  add(total.late_ns, row.late_ns);
  total.most_late_ns = std::max(total.most_late_ns, row.most_late_ns);
  add(total.windows, row.windows);
  if (row.measured == 0) return;
  total.least_bytes = total.measured == 0 ? row.least_bytes : std::min(total.least_bytes, row.least_bytes);
  total.most_bytes = std::max(total.most_bytes, row.most_bytes);
  total.measured += row.measured;
  total.bytes += row.bytes;
}

// Without calls that could not be offloaded.
LedgerRow offered(LedgerRow row) {
  for (std::size_t reason = 0; reason < kNativeReasons; ++reason) {
    if (could_be_offloaded(static_cast<NativeReason>(reason))) continue;
    row.calls -= std::min(row.calls, row.native[reason]);
    row.native[reason] = 0;
  }
  std::uint64_t& of_one = row.native[static_cast<std::size_t>(NativeReason::group_of_one)];
  of_one -= std::min(of_one, row.alone);
  row.calls -= std::min(row.calls, row.alone);
  row.calls -= std::min(row.calls, row.by_ranks);
  return row;
}

void add_phase(Summary& summary, const LedgerRow& row, std::uint32_t rank) {
  PhaseFigures& phase = summary.phases[text_in(row.name)];
  add(phase.total, row);
  phase.total.entered += row.entered;
  phase.inside.add(seconds(row.inside_ns), rank);
  phase.collectives.add(seconds(row.call_ns), rank);
  phase.outside.add(seconds(possible(row.inside_ns - row.call_ns)), rank);
  phase.meetings.add(static_cast<double>(row.meetings), rank);
  phase.meeting.add(seconds(row.meeting_ns), rank);
  phase.other.add(seconds(possible(row.call_ns - row.meeting_ns)), rank);
}

void add_site(Summary& summary, const LedgerHeader& header, const LedgerRow& row) {
  if (row.calls == 0) return;  // its first call has not ended
  const SiteKey key{
      row.kind,         row.waits != 0, object_of(header, row.site), row.site.offset, object_of(header, row.caller),
      row.caller.offset};
  CallFigures& site = summary.sites[key];
  add(site.total, row);
  site.total.kind = row.kind;
  site.seconds.add(seconds(row.time_ns()), header.world_rank);
}

void add_rows(Summary& summary, const LedgerHeader& header, std::span<const LedgerRow> rows) {
  const std::uint32_t rank = header.world_rank;
  std::map<Key, LedgerRow> collectives;  // of this rank, all forms together
  for (const LedgerRow& row : rows) {
    if (row.is_site()) {
      add_site(summary, header, row);
      continue;
    }
    if (row.is_phase()) {
      add_phase(summary, row, rank);
      continue;
    }
    if (row.calls == 0) continue;
    CallFigures& call = summary.calls[{row.kind, row.group}];
    add(call.total, row);
    call.total.kind = row.kind;
    call.seconds.add(seconds(row.time_ns()), rank);
    const std::optional<Collective> collective = offloaded_as(call_kind_at(row.kind).call);
    const LedgerRow part = offered(row);
    if (collective && part.calls != 0) add(collectives[{index_of(*collective), row.group}], part);
  }
  for (const auto& [key, row] : collectives) {
    CollectiveFigures& figures = summary.collectives[key];
    add(figures.total, row);
    figures.post.add(seconds(row.post_ns), rank);
    figures.completion.add(seconds(row.completion_ns), rank);
    figures.late.add(seconds(row.late_ns), rank);
  }
}

std::int64_t in_collectives_ns(std::span<const LedgerRow> rows) {
  std::int64_t sum_ns = 0;
  for (const LedgerRow& row : rows) {
    if (row.is_call()) add(sum_ns, possible(row.time_ns()));
  }
  return possible(sum_ns);
}

void add_service(Summary& summary, const LedgerHeader& header) {
  if (header.service.processes == 0) return;
  const bool known = std::ranges::any_of(summary.services, [&](const ServiceOfNode& service) {
    return service.node == header.node && service.figures.sp == header.service.sp;
  });
  if (!known) summary.services.push_back({header.node, header.service});
}

void add_last(Summary& summary, const LedgerHeader& header, std::uint32_t rank) {
  if (header.last.known == 0) return;
  summary.cpu_process.add(seconds(header.last.process_cpu_ns), rank);
  summary.waiting_bytes += header.last.waiting_bytes;
  summary.spare_bytes += header.last.spare_bytes;
  summary.huge_bytes += header.last.huge_bytes;
}

void add_waits(WaitSums& sums, const WaitFigures& waits, std::uint32_t rank) {
  if (waits.kind < kWaitKinds.size()) sums.kind = std::max(sums.kind, waits.kind);
  if (waits.waited_ns > 0) sums.kind = static_cast<std::uint32_t>(WaitKind::polite);  // maybe only for a while
  if (sums.setting.empty()) sums.setting = text_in(waits.setting);
  sums.naps += waits.naps;
  sums.slept.add(seconds(possible(waits.slept_ns)), rank);
  sums.yielded.add(seconds(possible(waits.yielded_ns)), rank);
  sums.waited.add(seconds(possible(waits.waited_ns)), rank);
}

bool is_plausible(const LedgerHeader& header, std::size_t bytes) {
  return header.row_count <= kLedgerRows && bytes == sizeof(LedgerHeader) + header.row_count * sizeof(LedgerRow) &&
         header.world_rank < header.world_size;
}

}  // namespace

std::string object_of(const LedgerHeader& header, const CodePlace& place) {
  return place.object == 0 || place.object > kMostObjects ? std::string() : text_in(header.objects[place.object - 1]);
}

void Spread::add(double value, std::uint32_t rank) {
  if (ranks == 0 || value < min) {
    min = value;
    least = rank;
  }
  if (ranks == 0 || value > max) {
    max = value;
    most = rank;
  }
  sum += value;
  ++ranks;
}

const ServiceFigures& Summary::service() const {
  static constexpr ServiceFigures kNone{};
  return services.empty() ? kNone : services.front().figures;
}

std::optional<CheckedLedger> check_ledger(std::span<const std::byte> ledger) {
  if (ledger.size() < sizeof(LedgerHeader)) return std::nullopt;
  CheckedLedger checked;
  std::memcpy(&checked.header, ledger.data(), sizeof(LedgerHeader));
  if (!is_plausible(checked.header, ledger.size())) return std::nullopt;
  checked.rows.resize(checked.header.row_count);
  if (!checked.rows.empty()) {
    std::memcpy(checked.rows.data(), ledger.data() + sizeof(LedgerHeader), checked.rows.size() * sizeof(LedgerRow));
  }
  std::erase_if(checked.rows, [](const LedgerRow& row) { return row.kind >= kCallKinds && !row.is_phase(); });
  for (LedgerRow& row : checked.rows) {
    row.name.back() = '\0';
    keep_possible(row);
  }
  return checked;
}

bool add_ledger(Summary& summary, std::span<const std::byte> ledger, std::int64_t now_ns) {
  const std::optional<CheckedLedger> checked = check_ledger(ledger);
  if (!checked) return false;
  const auto& [header, rows] = *checked;
  if (summary.counted.empty()) {
    summary.mpi = text_in(header.mpi);
    summary.program = text_in(header.program);
    summary.native_because = text_in(header.native_because);
    summary.world_size = header.world_size;
    summary.nodes = header.nodes;
    summary.heap_is_used = header.heap_is_used != 0;
  }
  summary.counted.push_back(header.world_rank);
  const std::int64_t ended_ns = possible(header.ended_ns != 0 ? header.ended_ns : now_ns);
  const std::int64_t run_ns = ended_ns - possible(header.started_ns);
  summary.run_seconds.add(seconds(run_ns), header.world_rank);
  // Several threads may spend more time in collectives than the run has.
  summary.outside_seconds.add(seconds(possible(run_ns - in_collectives_ns(rows))), header.world_rank);
  summary.cpu_calls.add(seconds(header.cpu_in_calls_ns), header.world_rank);
  add_service(summary, header);
  add_last(summary, header, header.world_rank);
  add_waits(summary.waits, header.waits, header.world_rank);
  add_rows(summary, header, rows);
  return true;
}

std::vector<Range> ranges_of(const std::vector<std::uint32_t>& numbers) {
  std::vector<Range> ranges;
  for (const std::uint32_t number : numbers) {
    if (ranges.empty() || number != ranges.back().second + 1) ranges.emplace_back(number, number);
    ranges.back().second = number;
  }
  return ranges;
}

}  // namespace outrigger::report
