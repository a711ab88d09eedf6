#include "engine/core/inbox.hpp"

#include <algorithm>
#include <variant>

#include "engine/core/operation.hpp"
#include "engine/core/settlement.hpp"
#include "engine/relay/replicas.hpp"

namespace outrigger::engine {
namespace {

bool serves(const Context& context, SpId service, WorldRank rank) {
  return context.knows(rank) && context.service_of(rank) == service;
}

// Checks a message's claims about a group with known members.
struct Claims {
  const Context& context;
  const Membership& group;
  SpId from;

  [[nodiscard]] bool theirs(GroupRank rank) const {
    return group.contains(rank) && serves(context, from, group.world(rank));
  }
  [[nodiscard]] bool ours(GroupRank rank) const { return group.contains(rank) && context.is_local(group.world(rank)); }

  [[nodiscard]] bool operator()(const peer::Announce& announce) const {
    return group.contains(announce.group_rank) && group.world(announce.group_rank) == announce.rank &&
           announce.members == group.local().size();
  }
  [[nodiscard]] bool operator()(const peer::Delivered& delivered) const {
    return theirs(delivered.source) && ours(delivered.destination);
  }
  [[nodiscard]] bool operator()(const peer::Release& release) const {
    return theirs(release.destination) && (release.source == peer::kEachSource || ours(release.source));
  }
  [[nodiscard]] bool operator()(const peer::Finished& /*finished*/) const { return true; }
  [[nodiscard]] bool operator()(const peer::Refusal& refusal) const { return theirs(refusal.from) && ours(refusal.to); }
  [[nodiscard]] bool operator()(const peer::ReplicaRequest& request) const { return group.contains(request.source); }
  [[nodiscard]] bool operator()(const peer::ReplicaAnswer& answer) const {
    if (!group.contains(answer.source)) return false;
    switch (answer.where) {
      case peer::Where::nowhere: return true;
      case peer::Where::here: return theirs(answer.holder);
      case peer::Where::forwarded:
        return std::binary_search(group.services().begin(), group.services().end(), answer.service);
    }
    return false;
  }
  [[nodiscard]] bool operator()(const peer::ReplicaDone& done) const { return group.contains(done.source); }
  [[nodiscard]] bool operator()(const peer::Quiesce& /*quiesce*/) const { return true; }
  [[nodiscard]] bool operator()(const peer::Overdue& /*overdue*/) const {
    return std::binary_search(group.services().begin(), group.services().end(), from);
  }
};

}  // namespace

bool Inbox::claims_hold(SpId from, const peer::Message& message) const {
  const auto* finished = std::get_if<peer::Finished>(&message.body);
  if (finished != nullptr && !serves(context_, from, finished->rank)) return false;
  const auto* announce = std::get_if<peer::Announce>(&message.body);
  if (announce != nullptr && !serves(context_, from, announce->rank)) return false;
  const Group* known = groups_.find(message.header.operation.group);
  if (known == nullptr || known->membership() == nullptr) return true;  // checked again when the members are known
  return std::visit(Claims{context_, *known->membership(), from}, message.body);
}

bool Inbox::receive(SpId from, std::span<const std::byte> bytes) {
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

bool Inbox::dispatch_next() {
  if (inbound_.empty()) return false;
  Inbound inbound = std::move(inbound_.front());
  inbound_.pop_front();
  const SpId from = inbound.from;
  const peer::Header& header = inbound.message.header;
  const Epoch known_epoch = context_.epoch_of(from);
  if (header.from_epoch < known_epoch) return true;
  // for an earlier incarnation of this process
  if (header.to_epoch != Epoch{0} && header.to_epoch != context_.config.epoch) return true;
  if (header.from_epoch > known_epoch) peer_restarted(from, header.from_epoch);
  if (!claims_hold(from, inbound.message)) return true;
  std::visit([&](auto& body) { handle(from, header.operation, body); }, inbound.message.body);
  return true;
}

Operation* Inbox::find_open(const OperationId& id) const {
  Group* known = groups_.find(id.group);
  return known == nullptr || known->membership() == nullptr ? nullptr : known->find_operation(id.sequence);
}

// ---------------------------------------------------------------- announcements and ends of pairs

void Inbox::handle(SpId from, const OperationId& id, peer::Announce& announce) {
  if (groups_.answer_forgotten(from, id, announce.members)) return;
  Group& group = groups_.get(id.group);
  group.operation(id.sequence).matcher.on_announce(from, std::move(announce));
  groups_.close_if_over(group, id.sequence);
}

void Inbox::handle(SpId from, const OperationId& id, const peer::Delivered& delivered) {
  Group* known = groups_.find(id.group);
  // A pair that was empty on this side only, or a rank that was lost: the other side still waits for an answer.
  if (known == nullptr || known->membership() == nullptr) return groups_.tell_of_ended(from, id);
  on_delivered(known->operation(id.sequence), from, delivered);
  groups_.close_if_over(*known, id.sequence);
}

void Inbox::handle(SpId /*from*/, const OperationId& id, const peer::Release& release) {
  if (Operation* operation = find_open(id)) on_release(*operation, release);
}

void Inbox::handle(SpId /*from*/, const OperationId& id, const peer::Finished& finished) {
  if (Operation* operation = find_open(id)) end_pairs_with_finished(*operation, finished);
}

void Inbox::handle(SpId /*from*/, const OperationId& id, const peer::Refusal& refusal) {
  if (Operation* operation = find_open(id)) on_refusal(*operation, refusal);
}

// ---------------------------------------------------------------- replicas: every request is answered

void Inbox::handle(SpId from, const OperationId& id, const peer::ReplicaRequest& request) {
  if (groups_.is_forgotten(id.group)) {
    peer::ReplicaAnswer nowhere;
    nowhere.source = request.source;
    nowhere.segment = request.segment;
    return context_.send(from, id, nowhere);
  }
  Group& group = groups_.get(id.group);
  group.operation(id.sequence).replicas().on_request(from, request);
  groups_.close_if_over(group, id.sequence);
}

void Inbox::handle(SpId from, const OperationId& id, const peer::ReplicaAnswer& answer) {
  Group* known = groups_.find(id.group);
  Operation* operation = known == nullptr ? nullptr : known->find_operation(id.sequence);
  if (operation != nullptr) return operation->replicas().on_answer(from, answer);
  if (answer.where == peer::Where::here) {
    context_.send(from, id, peer::ReplicaDone{answer.source, answer.segment});
  }
}

void Inbox::handle(SpId from, const OperationId& id, const peer::ReplicaDone& done) {
  if (Operation* operation = find_open(id)) operation->replicas().on_done(from, done);
}

void Inbox::handle(SpId from, const OperationId& id, const peer::Quiesce& quiesce) {
  if (Operation* operation = find_open(id)) return operation->replicas().on_quiesce(from, quiesce);
  if (quiesce.asks) context_.send(from, id, peer::Quiesce{false});
}

// ---------------------------------------------------------------- restarted peers

void Inbox::peer_restarted(SpId peer, Epoch epoch) {
  Epoch& known = context_.peer_epochs[peer];
  if (epoch <= known) return;
  const bool replaced = epoch > Epoch{1};
  known = epoch;
  if (!replaced) return;
  restarted_.push_back(peer);
}

bool Inbox::reannounce() {
  bool any = false;
  while (!restarted_.empty()) {
    const SpId peer = restarted_.back();
    restarted_.pop_back();
    any = true;
    for (const auto& [id, known] : groups_.all()) {
      const Membership* membership = known->membership();
      if (membership == nullptr) continue;
      for (std::uint32_t index = 0; index < membership->peers().size(); ++index) {
        if (membership->peers()[index].sp != peer) continue;
        for (const auto& [sequence, operation] : known->operations()) operation->peer_restarted(index);
      }
    }
  }
  return any;
}

}  // namespace outrigger::engine
