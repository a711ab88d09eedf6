#include "engine/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "engine/core/operation.hpp"

namespace outrigger::engine {
namespace {

static_assert(EngineCounters::kMessageKinds == std::variant_size_v<peer::Body>);

struct Inbound {
  SpId from;
  peer::Message message;
};

struct Rejected {
  WorldRank rank;
  SlotIndex slot;
};

struct Restored {
  WorldRank rank;
  GroupId group;
};

}  // namespace

class EngineState {
 public:
  EngineState(const EngineConfig& config, fabric::Fabric& fabric) : context_(config, fabric) {}

  void post(PostedOperation&& operation);
  void restore_progress(WorldRank rank, GroupId group, std::uint64_t next_sequence);
  [[nodiscard]] bool receive(SpId from, std::span<const std::byte> bytes);
  void peer_restarted(SpId peer, Epoch epoch);
  void drop_rank(WorldRank rank);
  void forget_group(WorldRank rank, GroupId group);
  bool run();
  [[nodiscard]] std::size_t open_operations() const;
  [[nodiscard]] std::optional<std::string> broken_invariant() const;
  [[nodiscard]] bool idle() const;
  [[nodiscard]] EngineCounters counters() const {
    EngineCounters counters = context_.counters;
    counters.most_frames = context_.frames.most_live();
    return counters;
  }

 private:
  // A group that every local member has freed or is gone. A peer that is replayed may still ask.
  struct Forgotten {
    std::vector<WorldRank> ranks;
    bool freed = true;  // by all of them, so that everything has been completed
  };

  [[nodiscard]] Group& group(GroupId id);
  [[nodiscard]] Group* find_group(GroupId id);
  [[nodiscard]] AlgorithmFunction check_shape(const PostedOperation& operation) const;
  [[nodiscard]] bool in_order(const Group* known, const PostedOperation& operation) const;
  void reject(const PostedOperation& operation);
  [[nodiscard]] bool claims_hold(SpId from, const peer::Message& message);
  void dispatch(Inbound inbound);
  [[nodiscard]] bool answered(const Inbound& inbound);
  [[nodiscard]] bool answer_forgotten(SpId from, const OperationId& operation, std::uint32_t members);
  void tell_of_restored();
  void reannounce(SpId peer);
  void remove_ended();
  void close_if_over(Group& group, std::uint64_t sequence);
  void close_if_freed(Group& group);
  void remember_forgotten(GroupId id, WorldRank rank, bool freed);
  void tell_peers_of_drop(Operation& operation, const Membership& membership, WorldRank rank);

  Context context_;
  std::unordered_map<GroupId, std::unique_ptr<Group>> groups_;
  std::unordered_map<GroupId, Forgotten> forgotten_;
  std::deque<GroupId> forgotten_order_;
  std::deque<Inbound> inbound_;
  std::vector<SpId> restarted_;
  std::vector<Rejected> rejected_;
  std::vector<Restored> restored_;
};

Group& EngineState::group(GroupId id) {
  std::unique_ptr<Group>& found = groups_[id];
  if (found != nullptr) return *found;
  found = std::make_unique<Group>(context_, id);
  // After a restart ranks come back one by one: some may have freed the group before others are known again.
  if (const auto forgotten = forgotten_.find(id); forgotten != forgotten_.end()) {
    for (const WorldRank rank : forgotten->second.ranks) {
      found->progress(rank).complete_below(~std::uint64_t{0});
      found->progress(rank).freed = true;
    }
  }
  return *found;
}

Group* EngineState::find_group(GroupId id) {
  const auto found = groups_.find(id);
  return found == groups_.end() ? nullptr : found->second.get();
}

// ---------------------------------------------------------------- posting

AlgorithmFunction EngineState::check_shape(const PostedOperation& operation) const {
  if (!context_.is_local(operation.rank) || context_.is_dropped(operation.rank)) return nullptr;
  if (operation.members == nullptr || operation.me.value() >= operation.members->size()) return nullptr;
  if ((*operation.members)[operation.me.value()] != operation.rank) return nullptr;
  const std::size_t size = operation.members->size();
  for (const BlockLayout* layout : {&operation.send, &operation.receive}) {
    if (layout->base.owner != operation.rank) return nullptr;
    if (!layout->extents.empty() && layout->extents.size() != size) return nullptr;
    const auto reserved = [](const PairExtent& extent) { return extent.bytes == peer::kSettled; };
    if (std::any_of(layout->extents.begin(), layout->extents.end(), reserved)) return nullptr;
    if (layout->block_bytes == peer::kSettled) return nullptr;
  }
  if (is_rooted(operation.collective) && operation.root >= size) return nullptr;
  if (!operation.delivered.empty() && operation.delivered.size() != size) return nullptr;
  if (operation.id.sequence == ~std::uint64_t{0}) return nullptr;
  return context_.registry.find(operation.collective, operation.algorithm);
}

// A first incarnation sees every post of a rank in turn. A later one sees those that are replayed first.
bool EngineState::in_order(const Group* known, const PostedOperation& operation) const {
  const std::uint64_t sequence = operation.id.sequence;
  if (known == nullptr) return sequence == 0 || context_.config.epoch > Epoch{1};
  const std::map<WorldRank, Progress>& all = known->all_progress();
  const auto progress = all.find(operation.rank);
  const std::uint64_t next = progress == all.end() ? 0 : progress->second.next_post;
  if (sequence == next) return true;
  if (context_.config.epoch == Epoch{1}) return false;
  return sequence > next || (progress != all.end() && sequence < progress->second.restored_below);
}

void EngineState::reject(const PostedOperation& operation) {
  rejected_.push_back(Rejected{operation.rank, operation.slot});
  if (!context_.is_local(operation.rank) || !in_order(find_group(operation.id.group), operation)) return;
  // Peers learn of it when they announce.
  Group& known = group(operation.id.group);
  Progress& progress = known.progress(operation.rank);
  progress.next_post = std::max(progress.next_post, operation.id.sequence + 1);
  progress.complete(operation.id.sequence, CompletionStatus::rejected);
  restored_.push_back(Restored{operation.rank, operation.id.group});
}

void EngineState::post(PostedOperation&& operation) {
  const AlgorithmFunction algorithm = check_shape(operation);
  Group* found = find_group(operation.id.group);
  if (algorithm == nullptr || !in_order(found, operation)) return reject(operation);
  const std::uint64_t sequence = operation.id.sequence;
  Group& known = found != nullptr ? *found : group(operation.id.group);
  if (!known.set_members(operation.members)) return reject(operation);
  Operation& open = known.operation(sequence);
  if (open.find(operation.me) != nullptr) {
    rejected_.push_back(Rejected{operation.rank, operation.slot});
    return;
  }
  Progress& progress = known.progress(operation.rank);
  progress.reopen(sequence);
  progress.next_post = std::max(progress.next_post, sequence + 1);
  open.add(std::move(operation), algorithm);
}

void EngineState::restore_progress(WorldRank rank, GroupId id, std::uint64_t next_sequence) {
  if (!context_.is_local(rank)) return;
  Group& known = group(id);
  Progress& progress = known.progress(rank);
  progress.next_post = std::max(progress.next_post, next_sequence);
  progress.restored_below = std::max(progress.restored_below, next_sequence);
  progress.complete_below(next_sequence);
  // What is open has been posted before: not complete after all.
  const Membership* membership = known.membership();
  const std::optional<GroupRank> me = membership == nullptr ? std::nullopt : membership->find(rank);
  for (const auto& [sequence, operation] : known.operations()) {
    if (me && operation->find(*me) != nullptr) progress.reopen(sequence);
  }
  // Others are told when everything that is replayed with this has been posted.
  restored_.push_back(Restored{rank, id});
}

// All of them are told of before anything that waits for them is forgotten.
void EngineState::tell_of_restored() {
  const std::vector<Restored> all = std::exchange(restored_, {});
  for (const Restored& restored : all) {
    Group* known = find_group(restored.group);
    if (known == nullptr) continue;
    for (const auto& [sequence, operation] : known->operations()) operation->restored(restored.rank);
  }
  for (const Restored& restored : all) {
    Group* known = find_group(restored.group);
    if (known == nullptr) continue;
    std::vector<std::uint64_t> sequences;
    for (const auto& [sequence, operation] : known->operations()) sequences.push_back(sequence);
    for (const std::uint64_t sequence : sequences) {
      known->find_operation(sequence)->forget_met_waiting();
      close_if_over(*known, sequence);
    }
  }
}

// ---------------------------------------------------------------- messages

bool EngineState::claims_hold(SpId from, const peer::Message& message) {
  const auto served_by_sender = [&](WorldRank rank) {
    return context_.knows(rank) && context_.service_of(rank) == from;
  };
  if (const auto* finished = std::get_if<peer::Finished>(&message.body)) return served_by_sender(finished->rank);
  if (const auto* announce = std::get_if<peer::Announce>(&message.body)) {
    if (!served_by_sender(announce->rank)) return false;
  }
  const Group* known = find_group(message.header.operation.group);
  const Membership* membership = known == nullptr ? nullptr : known->membership();
  if (membership == nullptr) return true;  // checked again when the members are known
  const auto pair = [&](GroupRank theirs, GroupRank ours) {
    return membership->contains(theirs) && membership->contains(ours) && served_by_sender(membership->world(theirs)) &&
           context_.is_local(membership->world(ours));
  };
  if (const auto* announce = std::get_if<peer::Announce>(&message.body)) {
    return membership->contains(announce->group_rank) && membership->world(announce->group_rank) == announce->rank &&
           announce->members == membership->local().size();
  }
  if (const auto* delivered = std::get_if<peer::Delivered>(&message.body)) {
    return pair(delivered->source, delivered->destination);
  }
  if (const auto* release = std::get_if<peer::Release>(&message.body)) {
    return pair(release->destination, release->source);
  }
  if (const auto* refusal = std::get_if<peer::Refusal>(&message.body)) return pair(refusal->from, refusal->to);
  if (const auto* want = std::get_if<peer::Want>(&message.body)) return membership->contains(want->source);
  if (const auto* done = std::get_if<peer::Done>(&message.body)) return membership->contains(done->source);
  if (const auto* copy = std::get_if<peer::Copy>(&message.body)) {
    if (!membership->contains(copy->source)) return false;
    const std::vector<SpId>& services = membership->services();
    if (copy->where == peer::Where::elsewhere)
      return std::binary_search(services.begin(), services.end(), copy->service);
    return copy->where != peer::Where::here ||
           (membership->contains(copy->holder) && served_by_sender(membership->world(copy->holder)));
  }
  return true;
}

bool EngineState::receive(SpId from, std::span<const std::byte> bytes) {
  if (from == context_.config.self) return false;
  std::optional<peer::Message> message = peer::decode(bytes);
  if (!message || !claims_hold(from, *message)) return false;
  EngineCounters::Messages& received = context_.counters.received[message->body.index()];
  ++received.count;
  received.bytes += bytes.size();
  inbound_.push_back(Inbound{from, std::move(*message)});
  Context::raise(context_.counters.most_inbound, inbound_.size());
  return true;
}

// True when every rank of ours has freed the group, so that nobody else is to come.
bool EngineState::answer_forgotten(SpId from, const OperationId& operation, std::uint32_t members) {
  const auto forgotten = forgotten_.find(operation.group);
  if (forgotten == forgotten_.end() || find_group(operation.group) != nullptr) return false;
  if (forgotten->second.ranks.size() < members) return false;
  for (const WorldRank rank : forgotten->second.ranks) {
    const bool lost = context_.is_dropped(rank) && !forgotten->second.freed;
    context_.send(from, operation, peer::Finished{rank, lost ? CompletionStatus::peer_lost : CompletionStatus::ok});
  }
  return true;
}

void EngineState::dispatch(Inbound inbound) {
  const peer::Header& header = inbound.message.header;
  const Epoch known_epoch = context_.epoch_of(inbound.from);
  if (header.from_epoch < known_epoch) return;
  if (header.to_epoch != Epoch{0} && header.to_epoch != context_.config.epoch) return;  // meant for an older self
  if (header.from_epoch > known_epoch) peer_restarted(inbound.from, header.from_epoch);
  if (!claims_hold(inbound.from, inbound.message)) return;  // the members may be known only now
  const GroupId id = header.operation.group;
  const std::uint64_t sequence = header.operation.sequence;
  if (auto* announce = std::get_if<peer::Announce>(&inbound.message.body)) {
    if (answer_forgotten(inbound.from, header.operation, announce->members)) return;
    Group& known = group(id);
    known.operation(sequence).on_announce(inbound.from, std::move(*announce));
    close_if_over(known, sequence);
    return;
  }
  if (answered(inbound)) return;
  Group* known = find_group(id);
  if (known == nullptr && std::holds_alternative<peer::Delivered>(inbound.message.body)) {
    // Of a pair that was empty on this side only, and so was not waited for: the other side still is.
    (void)answer_forgotten(inbound.from, header.operation, 0);
    return;
  }
  if (known == nullptr || known->membership() == nullptr) return;
  if (const auto* delivered = std::get_if<peer::Delivered>(&inbound.message.body)) {
    known->operation(sequence).on_delivered(inbound.from, *delivered);
    close_if_over(*known, sequence);
    return;
  }
  Operation* operation = known->find_operation(sequence);
  if (operation == nullptr) return;
  if (const auto* release = std::get_if<peer::Release>(&inbound.message.body)) {
    operation->on_release(inbound.from, *release);
  } else if (const auto* finished = std::get_if<peer::Finished>(&inbound.message.body)) {
    operation->on_finished(finished->rank, finished->status);
  } else if (const auto* refusal = std::get_if<peer::Refusal>(&inbound.message.body)) {
    operation->on_refusal(inbound.from, *refusal);
  } else if (const auto* copy = std::get_if<peer::Copy>(&inbound.message.body)) {
    operation->on_copy(inbound.from, *copy);
  } else if (const auto* done = std::get_if<peer::Done>(&inbound.message.body)) {
    operation->on_done(inbound.from, *done);
  } else if (const auto* quiet = std::get_if<peer::Quiet>(&inbound.message.body)) {
    operation->on_quiet(inbound.from, *quiet);
  }
}

// Questions, which get an answer whatever is known here. True: the message was one.
bool EngineState::answered(const Inbound& inbound) {
  const OperationId& id = inbound.message.header.operation;
  Group* known = find_group(id.group);
  const bool open = known != nullptr && known->membership() != nullptr && known->find_operation(id.sequence) != nullptr;
  if (const auto* quiet = std::get_if<peer::Quiet>(&inbound.message.body)) {
    if (!open && quiet->asks) context_.send(inbound.from, id, peer::Quiet{false});
    return !open;
  }
  if (const auto* copy = std::get_if<peer::Copy>(&inbound.message.body)) {
    const bool kept = !open && copy->where == peer::Where::here;
    if (kept) context_.send(inbound.from, id, peer::Done{copy->source, copy->piece});
    return !open;
  }
  const auto* want = std::get_if<peer::Want>(&inbound.message.body);
  if (want == nullptr) return false;
  if (known == nullptr && forgotten_.contains(id.group)) {
    peer::Copy nowhere;
    nowhere.source = want->source;
    nowhere.piece = want->piece;
    context_.send(inbound.from, id, nowhere);
    return true;
  }
  Group& asked = group(id.group);
  asked.operation(id.sequence).on_want(inbound.from, *want);
  close_if_over(asked, id.sequence);
  return true;
}

void EngineState::peer_restarted(SpId peer, Epoch epoch) {
  Epoch& known = context_.peer_epochs[peer];
  if (epoch <= known) return;
  const bool replaced = epoch > Epoch{1};
  known = epoch;
  if (!replaced) return;
  restarted_.push_back(peer);
}

void EngineState::reannounce(SpId peer) {
  for (const auto& [id, known] : groups_) {
    const Membership* membership = known->membership();
    if (membership == nullptr) continue;
    for (std::uint32_t index = 0; index < membership->peers().size(); ++index) {
      if (membership->peers()[index].sp != peer) continue;
      for (const auto& [sequence, operation] : known->operations()) operation->reannounce(index);
    }
  }
}

// ---------------------------------------------------------------- ranks and groups that go

void EngineState::tell_peers_of_drop(Operation& operation, const Membership& membership, WorldRank rank) {
  for (const Membership::Peer& peer : membership.peers()) {
    context_.send(peer.sp, operation.id(), peer::Finished{rank, CompletionStatus::peer_lost});
  }
  operation.on_finished(rank, CompletionStatus::peer_lost);
}

void EngineState::drop_rank(WorldRank rank) {
  if (!context_.is_local(rank) || !context_.dropped_ranks.insert(rank).second) return;
  std::vector<std::pair<Group*, std::uint64_t>> touched;
  for (const auto& [id, known] : groups_) {
    const Membership* membership = known->membership();
    if (membership == nullptr) {
      // Nobody here has posted on the group, so whether the rank is a member only those who announced know.
      for (const auto& [sequence, operation] : known->operations()) {
        operation->restored(rank);
        operation->forget_met_waiting();
        touched.emplace_back(known.get(), sequence);
      }
      continue;
    }
    const std::optional<GroupRank> me = membership->find(rank);
    if (!me) continue;
    const auto own = known->all_progress().find(rank);
    for (const auto& [sequence, operation] : known->operations()) {
      const bool had_completed = own != known->all_progress().end() && own->second.is_complete(sequence);
      operation->drop(*me);
      if (!had_completed) tell_peers_of_drop(*operation, *membership, rank);
      touched.emplace_back(known.get(), sequence);
    }
  }
  for (const auto& [known, sequence] : touched) close_if_over(*known, sequence);
  std::vector<GroupId> ids;
  for (const auto& [id, known] : groups_) ids.push_back(id);
  for (const GroupId id : ids) close_if_freed(*groups_.at(id));
}

void EngineState::remember_forgotten(GroupId id, WorldRank rank, bool freed) {
  const auto [found, added] = forgotten_.try_emplace(id);
  found->second.freed = found->second.freed && freed;
  std::vector<WorldRank>& ranks = found->second.ranks;
  if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
  if (!added) return;
  forgotten_order_.push_back(id);
  if (forgotten_order_.size() <= context_.config.limits.forgotten_groups) return;
  forgotten_.erase(forgotten_order_.front());
  forgotten_order_.pop_front();
}

void EngineState::forget_group(WorldRank rank, GroupId id) {
  Group* known = find_group(id);
  if (known == nullptr || !context_.is_local(rank)) return;
  known->progress(rank).freed = true;
  close_if_freed(*known);
}

void EngineState::close_if_freed(Group& known) {
  if (!known.operations().empty() || known.all_progress().empty()) return;
  const Membership* membership = known.membership();
  for (const auto& [rank, progress] : known.all_progress()) {
    if (!progress.freed && !context_.is_dropped(rank)) return;
  }
  if (membership != nullptr) {
    for (const GroupRank local : membership->local()) {
      const WorldRank world = membership->world(local);
      if (!known.all_progress().contains(world) && !context_.is_dropped(world)) return;
    }
  }
  const GroupId id = known.id();
  for (const auto& [rank, progress] : known.all_progress()) remember_forgotten(id, rank, progress.freed);
  groups_.erase(id);
}

void EngineState::close_if_over(Group& known, std::uint64_t sequence) {
  const auto found = known.operations().find(sequence);
  if (found == known.operations().end() || !found->second->is_over()) return;
  known.operations().erase(found);
}

void EngineState::remove_ended() {
  std::vector<OperationId> ended = std::move(context_.ended_parts);
  context_.ended_parts.clear();
  const OperationId* before = nullptr;
  for (const OperationId& id : ended) {
    if (before != nullptr && *before == id) continue;  // ranks of one operation end together
    before = &id;
    Group* known = find_group(id.group);
    if (known == nullptr) continue;
    if (Operation* operation = known->find_operation(id.sequence)) operation->remove_completed();
    close_if_over(*known, id.sequence);
    close_if_freed(*known);
  }
  ended.clear();
  if (context_.ended_parts.empty()) context_.ended_parts = std::move(ended);  // keep the capacity
}

// ---------------------------------------------------------------- running and checking

bool EngineState::run() {
  bool ran = false;
  for (;;) {
    bool progressed = false;
    while (!rejected_.empty()) {
      const Rejected rejected = rejected_.back();
      rejected_.pop_back();
      fabric::CompletionRecord record;
      record.status = CompletionStatus::rejected;
      context_.fabric.complete(rejected.rank, rejected.slot, record);
      progressed = true;
    }
    if (!restored_.empty()) {
      tell_of_restored();
      progressed = true;
    }
    progressed = context_.scheduler.run() || progressed;
    if (!inbound_.empty()) {
      Inbound inbound = std::move(inbound_.front());
      inbound_.pop_front();
      dispatch(std::move(inbound));
      progressed = true;
    }
    while (!restarted_.empty()) {
      const SpId peer = restarted_.back();
      restarted_.pop_back();
      reannounce(peer);
      progressed = true;
    }
    if (!context_.ended_parts.empty()) remove_ended();
    if (!progressed) return ran;
    ran = true;
  }
}

std::size_t EngineState::open_operations() const {
  std::size_t open = 0;
  for (const auto& [id, known] : groups_) open += known->operations().size();
  return open;
}

std::optional<std::string> EngineState::broken_invariant() const {
  std::uint32_t slots = 0;
  for (const auto& [id, known] : groups_) {
    std::vector<std::uint32_t> in_use(known->credit_lines().size(), 0);
    for (const auto& [sequence, operation] : known->operations()) {
      if (std::optional<std::string> broken = operation->broken_invariant()) return broken;
      slots += operation->window_slots();
      for (std::uint32_t peer = 0; operation->has_parts() && peer < in_use.size(); ++peer) {
        if (operation->holds_credit(peer)) ++in_use[peer];
      }
    }
    for (std::size_t peer = 0; peer < in_use.size(); ++peer) {
      const CreditLine& line = known->credit_lines()[peer];
      if (line.in_use != in_use[peer]) return fmt::format("{} credits counted, {} kept", in_use[peer], line.in_use);
      if (!line.waiting.empty() && line.in_use == 0) return "announcements wait although credits are free";
    }
  }
  // Slots handed to a coroutine that has not run yet belong to no rank until it has.
  const std::uint32_t held = context_.window.held();
  if (held > context_.window.limit()) return fmt::format("{} window slots held of {}", held, context_.window.limit());
  if (context_.scheduler.idle() && held != slots) {
    return fmt::format("window slot leaked: {} held, {} accounted for by ranks' moves", held, slots);
  }
  if (context_.scheduler.idle() && context_.window.has_waiters() && held < context_.window.limit()) {
    return "a move waits although the window has room";
  }
  return std::nullopt;
}

bool EngineState::idle() const {
  const auto at_rest = [](const auto& entry) {
    const std::vector<CreditLine>& lines = entry.second->credit_lines();
    return entry.second->operations().empty() && entry.second->waiting_announcements == 0 &&
           std::all_of(lines.begin(), lines.end(),
                       [](const CreditLine& line) { return line.in_use == 0 && line.waiting.empty(); });
  };
  return std::all_of(groups_.begin(), groups_.end(), at_rest) && context_.window.held() == 0 && inbound_.empty() &&
         restarted_.empty() && rejected_.empty() && restored_.empty() && context_.scheduler.idle();
}

// ---------------------------------------------------------------- the public face

Engine::Engine(const EngineConfig& config, fabric::Fabric& fabric)
    : state_(std::make_unique<EngineState>(config, fabric)) {}
Engine::~Engine() = default;
void Engine::post(PostedOperation operation) {
  state_->post(std::move(operation));
}
void Engine::restore_progress(WorldRank rank, GroupId group, std::uint64_t next_sequence) {
  state_->restore_progress(rank, group, next_sequence);
}
bool Engine::receive(SpId from, std::span<const std::byte> message) {
  return state_->receive(from, message);
}
void Engine::peer_restarted(SpId peer, Epoch epoch) {
  state_->peer_restarted(peer, epoch);
}
void Engine::drop_rank(WorldRank rank) {
  state_->drop_rank(rank);
}
void Engine::forget_group(WorldRank rank, GroupId group) {
  state_->forget_group(rank, group);
}
bool Engine::run() {
  return state_->run();
}
std::size_t Engine::open_operations() const {
  return state_->open_operations();
}
std::optional<std::string> Engine::broken_invariant() const {
  return state_->broken_invariant();
}
bool Engine::idle() const {
  return state_->idle();
}

EngineCounters Engine::counters() const {
  return state_->counters();
}

}  // namespace outrigger::engine
