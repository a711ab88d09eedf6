#include "service/keeper/observe/job_counts.hpp"

#include <fcntl.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include "base/clock.hpp"
#include "base/whole_file.hpp"
#include "protocol/shared/segment.hpp"
#include "report/json.hpp"
#include "service/keeper/ranks/process_end.hpp"
#include "service/notices/log.hpp"

namespace outrigger::service {
namespace {

// A process ends a moment after its connection closes.
constexpr std::chrono::milliseconds kForItsEnd{200};

std::int64_t now_for_counts_ns() {
  return time_on(CLOCK_MONOTONIC).count();
}

void add_routes(std::vector<WireRoute>& routes, const SegmentHeader& header) {
  const std::uint32_t count = std::min(header.wire_route_count.load(std::memory_order_acquire), kMaxWireRoutes);
  for (std::uint32_t i = 0; i < count; ++i) {
    const WireRoute route = header.wire_routes[i];
    if (std::ranges::find(routes, route) == routes.end()) routes.push_back(route);
  }
}

bool is_in(report::LedgerState state, const report::Ledger& ledger) {
  return ledger.header().state == static_cast<std::uint32_t>(state);
}

bool is_unwritten(const report::Ledger& ledger) {
  return !report::text_in(ledger.header().path).empty() && !is_in(report::LedgerState::finalized, ledger);
}

}  // namespace

Status JobCounts::take(const LocalRank& rank, UniqueFd memory) {
  Counted& counted = ranks_[rank.hello.local_rank];
  if (counted.ledger) return Error{"it has already sent memory for counts"};
  Result<report::Ledger> ledger = report::Ledger::open(std::move(memory));
  if (!ledger) return Error{ledger.error()};
  counted.ledger = std::move(ledger).value();
  counted.pid = rank.pid;
  return Done{};
}

void JobCounts::rank_leaves(const LocalRank& rank) {
  Counted& counted = ranks_[rank.hello.local_rank];
  if (!counted.ledger || counted.left_ns != 0) return;
  counted.left_ns = now_for_counts_ns();
  counted.left_as = ++left_;
  counted.exit_event = UniqueFd(::fcntl(rank.exit_event.get(), F_DUPFD_CLOEXEC, 0));
  if (!rank.segment.valid()) return;
  const SegmentHeader& header = SegmentView(rank.segment.base()).header();
  add_routes(routes_, header);
  report::ServiceFigures& figures = counted.ledger->header().service;
  figures.measured(header.service_ran_ns.load(std::memory_order_relaxed),
                   header.service_waited_ns.load(std::memory_order_relaxed));
  figures.restarts = header.service_restarts.load(std::memory_order_relaxed);
  if (header.warned.load(std::memory_order_acquire) != 0) {
    report::set_text(figures.warning, report::text_in(header.fatal_text));
  }
  figures.other_job = header.service_other_job.load(std::memory_order_relaxed);
}

void JobCounts::job_ends(const std::string& why) {
  why_ = why;
  why_at_ns_ = now_for_counts_ns();
}

// The first of several that aborted.
std::optional<JobCounts::End> JobCounts::aborted() const {
  const report::Ledger* first = nullptr;
  for (const Counted& rank : ranks_) {
    if (!rank.ledger || !is_in(report::LedgerState::aborting, *rank.ledger)) continue;
    if (first == nullptr || rank.ledger->header().ended_ns < first->header().ended_ns) first = &*rank.ledger;
  }
  if (first == nullptr) return std::nullopt;
  End end;
  end.ended.text = report::text_in(first->header().abort_text);
  end.ended.how = end.ended.text.empty() ? "aborted" : "ended";
  end.ended.code = first->header().code;
  end.ended.rank = first->header().world_rank;
  end.at_ns = first->header().ended_ns;
  return end;
}

// The rank that ended first: the others end because of it.
JobCounts::End JobCounts::gone() const {
  const Counted* first = nullptr;
  for (const Counted& rank : ranks_) {
    if (!rank.ledger || rank.left_as == 0 || is_in(report::LedgerState::finalized, *rank.ledger)) continue;
    if (first == nullptr || rank.left_as < first->left_as) first = &rank;
  }
  End end;
  end.ended.how = "lost";
  if (first == nullptr) return end;
  end.at_ns = first->left_ns;
  end.ended.rank = first->ledger->header().world_rank;
  const std::optional<int> status = end_status_of(first->pid, first->exit_event.get(), kForItsEnd);
  if (status && WIFSIGNALED(*status)) {
    end.ended.how = "signal";
    end.ended.signal = WTERMSIG(*status);
  } else if (status && WIFEXITED(*status)) {
    end.ended.how = "exited";
    end.ended.code = WEXITSTATUS(*status);
  }
  return end;
}

JobCounts::End JobCounts::end() const {
  if (!why_.empty()) {
    End end;
    end.ended.how = "ended";
    end.ended.text = why_;
    end.at_ns = why_at_ns_;
    return end;
  }
  const std::optional<End> by_abort = aborted();
  return by_abort ? *by_abort : gone();
}

std::vector<report::LiveRank> JobCounts::live() const {
  std::vector<report::LiveRank> all;
  for (const Counted& rank : ranks_) {
    if (rank.ledger) all.push_back({rank.ledger->bytes(), rank.pid, rank.left_ns != 0});
  }
  return all;
}

const report::Ledger* JobCounts::of_rank_0() const {
  const auto found = std::ranges::find_if(
      ranks_, [](const Counted& rank) { return rank.ledger && rank.ledger->header().world_rank == 0; });
  return found == ranks_.end() ? nullptr : &*found->ledger;
}

bool JobCounts::to_be_written() const {
  const report::Ledger* first = of_rank_0();
  return first != nullptr && is_unwritten(*first);
}

bool JobCounts::to_be_sent() const {
  return of_rank_0() == nullptr &&
         std::ranges::any_of(ranks_, [](const Counted& rank) { return rank.ledger && is_unwritten(*rank.ledger); });
}

report::NodeCounts JobCounts::of_this_node() const {
  const auto [ended, at_ns] = end();
  report::NodeCounts counts;
  counts.ended = ended;
  counts.ended_at_ns = time_on(CLOCK_REALTIME).count() - (now_for_counts_ns() - at_ns);
  counts.routes = routes_;
  for (const Counted& rank : ranks_) {
    if (!rank.ledger) continue;
    const std::span<const std::byte> bytes = rank.ledger->bytes();
    counts.ranks.push_back({{bytes.begin(), bytes.end()}, rank.left_ns == 0 ? now_for_counts_ns() : rank.left_ns});
  }
  return counts;
}

void JobCounts::write() const {
  if (!to_be_written()) return;
  std::vector<report::NodeCounts> nodes = others_;
  nodes.insert(nodes.begin(), of_this_node());
  const std::string path = report::text_in(of_rank_0()->header().path);
  const std::string text = report::as_json(report::summary_of(nodes));
  if (const Status written = write_file(path, text, true); !written) {
    spdlog::error("the report could not be written to {}: {}", path, written.error());
  }
}

}  // namespace outrigger::service
