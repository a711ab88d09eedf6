#include "service/keeper/job_counts.hpp"

#include <fcntl.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include "base/clock.hpp"
#include "protocol/segment.hpp"
#include "report/file.hpp"
#include "report/json.hpp"
#include "service/keeper/process_end.hpp"
#include "service/log.hpp"

namespace outrigger::service {
namespace {

// A process that has closed its connection has ended a moment later.
constexpr std::chrono::milliseconds kForItsEnd{200};

std::int64_t now_ns() {
  return time_on(CLOCK_MONOTONIC).count();
}

void add_routes(std::vector<report::WireUse>& uses, const SegmentHeader& header) {
  const std::uint32_t count = std::min(header.wire_route_count.load(std::memory_order_acquire), kMaxWireRoutes);
  for (std::uint32_t i = 0; i < count; ++i) {
    const WireRoute route = header.wire_routes[i];
    if (std::ranges::find(uses, route, &report::WireUse::route) == uses.end()) uses.push_back({route, 1});
  }
}

bool is_in(report::LedgerState state, const report::Ledger& ledger) {
  return ledger.header().state == static_cast<std::uint32_t>(state);
}

}  // namespace

Status JobCounts::take(const LocalRank& rank, UniqueFd memory) {
  Counted& counted = ranks_[rank.hello.local_rank];
  if (counted.ledger) return Error{"it counts in memory already"};
  Result<report::Ledger> ledger = report::Ledger::open(std::move(memory));
  if (!ledger) return Error{ledger.error()};
  counted.ledger = std::move(ledger).value();
  counted.pid = rank.pid;
  return Done{};
}

void JobCounts::rank_leaves(const LocalRank& rank) {
  Counted& counted = ranks_[rank.hello.local_rank];
  if (!counted.ledger || counted.left_ns != 0) return;
  counted.left_ns = now_ns();
  counted.left_as = ++left_;
  counted.exit_event = UniqueFd(::fcntl(rank.exit_event.get(), F_DUPFD_CLOEXEC, 0));
  if (!rank.segment.valid()) return;
  const SegmentHeader& header = SegmentView(rank.segment.base()).header();
  add_routes(wire_, header);
  report::ServiceFigures& figures = counted.ledger->header().service;
  figures.measured(header.service_ran_ns.load(std::memory_order_relaxed),
                   header.service_waited_ns.load(std::memory_order_relaxed));
  figures.restarts = header.service_restarts.load(std::memory_order_relaxed);
  if (header.warned.load(std::memory_order_acquire) != 0) {
    report::set_text(figures.warning, report::text_in(header.fatal_text));
  }
  figures.other_job = header.service_other_job.load(std::memory_order_relaxed);
}

// Of several that did it, the first.
std::optional<report::Ending> JobCounts::aborted() const {
  const report::Ledger* first = nullptr;
  for (const Counted& rank : ranks_) {
    if (!rank.ledger || !is_in(report::LedgerState::aborting, *rank.ledger)) continue;
    if (first == nullptr || rank.ledger->header().ended_ns < first->header().ended_ns) first = &*rank.ledger;
  }
  if (first == nullptr) return std::nullopt;
  report::Ending ending;
  ending.text = report::text_in(first->header().abort_text);
  ending.how = ending.text.empty() ? "aborted" : "ended";
  ending.code = first->header().code;
  ending.rank = first->header().world_rank;
  return ending;
}

// The rank that was gone first: the others are ended on its account.
report::Ending JobCounts::gone() const {
  const Counted* first = nullptr;
  for (const Counted& rank : ranks_) {
    if (!rank.ledger || rank.left_as == 0 || is_in(report::LedgerState::finalized, *rank.ledger)) continue;
    if (first == nullptr || rank.left_as < first->left_as) first = &rank;
  }
  report::Ending ending;
  ending.how = "lost";
  if (first == nullptr) return ending;
  ending.rank = first->ledger->header().world_rank;
  const std::optional<int> status = end_status_of(first->pid, first->exit_event.get(), kForItsEnd);
  if (status && WIFSIGNALED(*status)) {
    ending.how = "signal";
    ending.signal = WTERMSIG(*status);
  } else if (status && WIFEXITED(*status)) {
    ending.how = "exited";
    ending.code = WEXITSTATUS(*status);
  }
  return ending;
}

report::Ending JobCounts::ending() const {
  if (!why_.empty()) {
    report::Ending ending;
    ending.how = "ended";
    ending.text = why_;
    return ending;
  }
  const std::optional<report::Ending> by_abort = aborted();
  return by_abort ? *by_abort : gone();
}

std::vector<report::LiveRank> JobCounts::live() const {
  std::vector<report::LiveRank> all;
  for (const Counted& rank : ranks_) {
    if (rank.ledger) all.push_back({rank.ledger->bytes(), rank.pid, rank.left_ns != 0});
  }
  return all;
}

void JobCounts::write() {
  const report::Ledger* first = nullptr;
  report::Summary summary;
  for (const Counted& rank : ranks_) {
    if (!rank.ledger) continue;
    if (rank.ledger->header().world_rank == 0) first = &*rank.ledger;
    report::add_ledger(summary, rank.ledger->bytes(), rank.left_ns == 0 ? now_ns() : rank.left_ns);
  }
  if (first == nullptr || is_in(report::LedgerState::finalized, *first)) return;
  const std::string path = report::text_in(first->header().path);
  if (path.empty() || path == "-") return;
  std::ranges::sort(summary.counted);
  summary.wire = wire_;
  summary.ended = ending();
  if (const Status written = report::write_file(path, report::as_json(summary), true); !written) {
    spdlog::error("the report could not be written to {}: {}", path, written.error());
  }
}

}  // namespace outrigger::service
