#include "fabric/dpu/completions.hpp"

#include <atomic>
#include <cassert>
#include <memory>
#include <utility>

namespace outrigger::fabric::dpu {
namespace {

constexpr std::size_t kLineBytes = 64;

}  // namespace

void Completions::add(WorldRank rank, SlotIndex slot) {
  if (RemoteRank* here = ranks_.find(rank)) here->completed.push_back(slot);
}

void Completions::step(RemoteRank& rank) {
  if (!rank.completed.empty() && !rank.telling) tell_completions(rank);
  if (rank.line_changed && !rank.line_under_way) tell_line(rank);
}

void Completions::tell_completions(RemoteRank& rank) {
  assert(!rank.telling && "results of one turn are in place before those of the next are written");
  rank.telling = true;
  std::vector<SlotIndex> slots = std::exchange(rank.completed, {});
  for (const SlotIndex slot : slots) {
    const SlotResult& result = rank.mirror.slot(slot).result;
    rank.remote->store(&result, sizeof(result), [](bool /*ok*/) {});
  }
  rank.remote->when_flushed([this, number = rank.rank, slots = std::move(slots)](bool ok) {
    if (ok) tell_states(number, slots);
  });
}

void Completions::tell_states(WorldRank number, const std::vector<SlotIndex>& slots) {
  RemoteRank* rank = ranks_.find(number);
  if (rank == nullptr) return;
  for (const SlotIndex slot : slots) {
    const std::atomic<std::uint32_t>& state = rank->mirror.slot(slot).state;
    rank->remote->store(&state, sizeof(state), [](bool /*ok*/) {});
  }
  rank->remote->when_flushed([this, number](bool /*ok*/) {
    RemoteRank* told = ranks_.find(number);
    if (told == nullptr) return;
    told->telling = false;
    told->line_changed = true;
  });
}

void Completions::tell_line(RemoteRank& rank) {
  rank.line_changed = false;
  rank.line_under_way = true;
  auto told = std::make_shared<std::vector<Rma::Done>>(std::exchange(rank.line_told, {}));
  rank.remote->store(&rank.mirror.header().completions, kLineBytes, [](bool /*ok*/) {});
  rank.remote->when_flushed([this, number = rank.rank, told](bool ok) {
    if (RemoteRank* here = ranks_.find(number)) here->line_under_way = false;
    for (const Rma::Done& done : *told) done(ok);
  });
}

void Completions::publish_route(WorldRank number, std::size_t route) {
  RemoteRank* rank = ranks_.find(number);
  if (rank == nullptr || rank->left) return;
  const SegmentHeader& header = rank->mirror.header();
  rank->remote->store(&header.wire_routes[route], sizeof(header.wire_routes[route]), [](bool /*ok*/) {});
  rank->remote->when_flushed([this, number](bool /*ok*/) {
    RemoteRank* here = ranks_.find(number);
    if (here == nullptr || here->left) return;
    const auto& count = here->mirror.header().wire_route_count;
    here->remote->store(&count, sizeof(count), [](bool /*ok*/) {});
  });
}

}  // namespace outrigger::fabric::dpu
