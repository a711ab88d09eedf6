#include "engine/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "engine/core/context.hpp"
#include "engine/core/group_table.hpp"
#include "engine/core/inbox.hpp"
#include "engine/core/operation.hpp"
#include "engine/core/overdue.hpp"
#include "engine/core/posts.hpp"
#include "engine/core/settlement.hpp"

namespace outrigger::engine {

static_assert(EngineCounters::kMessageKinds == std::variant_size_v<peer::Body>);

struct EngineState {
  EngineState(const EngineConfig& config, const fabric::Seams& seams)
      : context(config, seams), groups(context), posts(context, groups), inbox(context, groups) {}

  Context context;
  GroupTable groups;
  Posts posts;
  Inbox inbox;
};

namespace {

void tell_of_drop(Operation& operation, WorldRank rank) {
  const peer::Finished lost{rank, CompletionStatus::peer_lost};
  for (const Membership::Peer& peer : operation.membership().peers()) {
    operation.context.send(peer.sp, operation.id(), lost);
  }
  end_pairs_with_finished(operation, lost);
}

void drop_from(Group& group, WorldRank rank) {
  const Membership* membership = group.membership();
  if (membership == nullptr) {
    // No local rank has posted on the group, so only peers that announced know if the rank is a member.
    for (const auto& [sequence, operation] : group.operations()) {
      operation->restored(rank);
      operation->matcher.forget_met_by_restored();
    }
    return;
  }
  const std::optional<GroupRank> me = membership->find(rank);
  if (!me) return;
  const auto own = group.all_progress().find(rank);
  for (const auto& [sequence, operation] : group.operations()) {
    const bool had_completed = own != group.all_progress().end() && own->second.is_complete(sequence);
    operation->drop(*me);
    if (!had_completed) tell_of_drop(*operation, rank);
  }
}

// Removes operations in which a rank has completed since the last call.
void remove_ended(EngineState& state) {
  std::vector<OperationId> ended = std::move(state.context.ended);
  state.context.ended.clear();
  const OperationId* before = nullptr;
  for (const OperationId& id : ended) {
    if (before != nullptr && *before == id) continue;  // ranks of one operation end together
    before = &id;
    Group* known = state.groups.find(id.group);
    if (known == nullptr) continue;
    if (Operation* operation = known->find_operation(id.sequence)) operation->remove_completed();
    state.groups.close_if_over(*known, id.sequence);
    state.groups.close_if_freed(*known);
  }
  ended.clear();
  if (state.context.ended.empty()) state.context.ended = std::move(ended);  // keep the capacity
}

}  // namespace

Engine::Engine(const EngineConfig& config, const fabric::Seams& seams)
    : state_(std::make_unique<EngineState>(config, seams)) {}
Engine::~Engine() = default;

// ---------------------------------------------------------------- input

void Engine::post(PostedOperation operation) {
  state_->posts.post(std::move(operation));
}

void Engine::restore_progress(WorldRank rank, GroupId group, std::uint64_t next_sequence) {
  state_->posts.restore_progress(rank, group, next_sequence);
}

bool Engine::receive(SpId from, std::span<const std::byte> message) {
  return state_->inbox.receive(from, message);
}

void Engine::peer_restarted(SpId peer, Epoch epoch) {
  state_->inbox.peer_restarted(peer, epoch);
}

void Engine::drop_rank(WorldRank rank) {
  Context& context = state_->context;
  if (!context.is_local(rank) || context.is_dropped(rank)) return;
  static_cast<void>(state_->posts.tell_of_restored());  // before kept announcements are dropped
  context.dropped_ranks.insert(rank);
  for (const auto& [id, known] : state_->groups.all()) drop_from(*known, rank);
  for (const auto& [id, known] : state_->groups.all()) {
    std::vector<std::uint64_t> sequences;
    for (const auto& [sequence, operation] : known->operations()) sequences.push_back(sequence);
    for (const std::uint64_t sequence : sequences) state_->groups.close_if_over(*known, sequence);
  }
  state_->groups.close_all_freed();
}

void Engine::forget_group(WorldRank rank, GroupId group) {
  Group* known = state_->groups.find(group);
  if (known == nullptr || !state_->context.is_local(rank)) return;
  known->progress(rank).freed = true;
  state_->groups.close_if_freed(*known);
}

bool Engine::look_for_passed() {
  return look_for_overdue(state_->groups);
}

// ---------------------------------------------------------------- running

bool Engine::run() {
  bool ran = false;
  for (;;) {
    bool progressed = state_->posts.complete_rejected();
    progressed |= state_->posts.tell_of_restored();
    progressed |= state_->context.scheduler.run();
    progressed |= state_->inbox.dispatch_next();
    progressed |= state_->inbox.reannounce();
    if (!state_->context.ended.empty()) remove_ended(*state_);
    if (!progressed) return ran;
    ran = true;
  }
}

// ---------------------------------------------------------------- inspection

std::size_t Engine::open_operations() const {
  std::size_t open = 0;
  for (const auto& [id, known] : state_->groups.all()) open += known->operations().size();
  return open;
}

EngineCounters Engine::counters() const {
  EngineCounters counters = state_->context.counters;
  counters.most_frames = state_->context.frames.most_live();
  return counters;
}

std::optional<std::string> Engine::broken_invariant() const {
  const Context& context = state_->context;
  std::uint32_t slots = 0;
  std::uint32_t near_slots = 0;
  for (const auto& [id, known] : state_->groups.all()) {
    std::vector<std::uint32_t> in_use(known->credit_lines().size(), 0);
    for (const auto& [sequence, operation] : known->operations()) {
      if (std::optional<std::string> broken = operation->broken_invariant()) return broken;
      for (const std::unique_ptr<LocalRank>& rank : operation->ranks.all()) {
        slots += rank->window_slots;
        near_slots += rank->near_window_slots;
      }
      for (std::uint32_t peer = 0; !operation->ranks.empty() && peer < in_use.size(); ++peer) {
        if (operation->announcer.holds_credit(peer)) ++in_use[peer];
      }
    }
    for (std::size_t peer = 0; peer < in_use.size(); ++peer) {
      const CreditLine& line = known->credit_lines()[peer];
      if (line.in_use != in_use[peer]) return fmt::format("{} credits counted, {} kept", in_use[peer], line.in_use);
      if (!line.waiting.empty() && line.in_use == 0) return "announcements wait although credits are free";
    }
  }
  if (std::optional<std::string> broken = context.window.broken_invariant(slots)) return broken;
  return context.near_window.broken_invariant(near_slots);
}

bool Engine::idle() const {
  const auto at_rest = [](const auto& entry) {
    const std::vector<CreditLine>& lines = entry.second->credit_lines();
    return entry.second->operations().empty() && entry.second->waiting_announcements == 0 &&
           std::all_of(lines.begin(), lines.end(),
                       [](const CreditLine& line) { return line.in_use == 0 && line.waiting.empty(); });
  };
  const GroupTable::Groups& groups = state_->groups.all();
  return std::all_of(groups.begin(), groups.end(), at_rest) && state_->context.window.held() == 0 &&
         state_->context.near_window.held() == 0 && state_->inbox.idle() && state_->posts.idle() &&
         state_->context.scheduler.idle();
}

}  // namespace outrigger::engine
