#include "service/keeper/observe/job_traces.hpp"

#include <algorithm>
#include <utility>

#include "service/notices/log.hpp"
#include "trace/snapshot.hpp"

namespace outrigger::service {
namespace {

bool is_left(const std::optional<trace::Memory>& rank) {
  return rank && rank->header().gathered.load(std::memory_order_acquire) == 0;
}

}  // namespace

Status JobTraces::take(LocalRank& rank, UniqueFd memory) {
  std::optional<trace::Memory>& kept = ranks_[rank.hello.local_rank];
  if (kept) return Error{"it has already sent memory for events"};
  Result<trace::Memory> opened = trace::Memory::open(memory);
  if (!opened) return Error{opened.error()};
  kept = std::move(opened).value();
  rank.trace_fd = std::move(memory);
  return Done{};
}

void JobTraces::mark_settled(std::uint32_t local_rank) {
  const std::optional<trace::Memory>& kept = ranks_[local_rank];
  if (kept) kept->header().settled.store(1, std::memory_order_release);
}

bool JobTraces::left() const {
  return std::ranges::any_of(ranks_, is_left);
}

void JobTraces::write() const {
  const auto first = std::ranges::find_if(ranks_, is_left);
  if (first == ranks_.end()) return;
  std::vector<std::vector<std::byte>> parts;
  for (const std::optional<trace::Memory>& rank : ranks_) {
    if (rank) parts.push_back(trace::snapshot(*rank));
  }
  const trace::Header& header = (*first)->header();
  const std::string path = report::text_in(header.path) + ".node-" + std::to_string(header.about.node);
  if (const Status written = trace::write_parts(path, parts); !written) {
    spdlog::error("the trace could not be written to {}: {}", path, written.error());
  }
}

}  // namespace outrigger::service
