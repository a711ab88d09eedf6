#include "service/dpu/daemon/kept_events.hpp"

#include <algorithm>
#include <ctime>
#include <span>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "trace/remote_events.hpp"

namespace outrigger::service {
namespace {

// 1 MiB, so that other messages do not wait long behind events
constexpr std::size_t kMostEventsAtATime = 16'384;

}  // namespace

Result<KeptEvents::OfRank> KeptEvents::add(std::uint32_t world_rank, std::uint32_t place) {
  if (ranks_.size() == kMaxLocalRanks || ranks_.contains(world_rank)) {
    return Error{"events of rank " + std::to_string(world_rank) + " are already kept, or there is no memory"};
  }
  Result<trace::Memory> memory = trace::Memory::create();
  if (!memory) return Error{memory.error()};
  const OfRank made{world_rank, memory.value().fd()};
  ranks_.try_emplace(world_rank, Kept{place, trace::Drain(std::move(memory).value())});
  return made;
}

std::vector<KeptEvents::OfRank> KeptEvents::of_place(std::uint32_t place) const {
  std::vector<OfRank> found;
  for (const auto& [world_rank, kept] : ranks_) {
    if (kept.place == place) found.push_back({world_rank, kept.events.memory().fd()});
  }
  return found;
}

void KeptEvents::send_events(DpuLink& link) {
  std::size_t room = kMostEventsAtATime;
  for (auto& [world_rank, kept] : ranks_) {
    trace::RemoteEvents told{world_rank, kept.events.take_dropped(), {}};
    do {
      told.events = kept.events.next(std::min(room, trace::kMostRemoteEvents));
      room -= told.events.size();
      if (told.events.empty() && told.dropped == 0) break;
      link.send(DpuFrameKind::trace_events, kept.place, {}, encoded(told));
      told.dropped = 0;
    } while (room != 0 && kept.events.more());
  }
}

void KeptEvents::answer(DpuLink& link, const DpuTraceAsk& ask) {
  if (ask.events != 0) send_events(link);
  const auto is_noted = [](const auto& rank) {
    return rank.second.events.memory().header().shared.load(std::memory_order_acquire) != 0;
  };
  const auto has_more = [](const auto& rank) { return rank.second.events.more(); };
  DpuTraceTold told;
  told.number = ask.number;
  told.more = std::ranges::any_of(ranks_, has_more) ? 1 : 0;
  told.noted = static_cast<std::uint32_t>(std::ranges::count_if(ranks_, is_noted));
  told.at_ns = time_on(CLOCK_MONOTONIC).count();
  link.send(DpuFrameKind::trace_told, 0, encoded(told));
}

}  // namespace outrigger::service
