#include "steer/coordinator/coordinator.hpp"

#include <variant>

namespace outrigger::steer {

// ---------------------------------------------------------------- local ranks

void Coordinator::posted(WorldRank rank, const GroupId& group, const Members& members, bool by_plan) {
  Communicator* communicator = context_.serves(rank) ? communicators_.find(group, members) : nullptr;
  if (communicator == nullptr) return;
  if (by_plan) agreement_.steer(*communicator);
  agreement_.steer_if_failing(*communicator);
}

void Coordinator::note_blocks(const OperationId& operation, Collective collective, bool small) {
  if (sizes_.note(operation, collective, small)) vote(operation.group, {0, sizes_.small(operation.group)});
}

void Coordinator::larger_blocks(const GroupId& group, Collective collective) {
  if (sizes_.note_larger(group, collective)) vote(group, {0, sizes_.small(group)});
}

void Coordinator::vote(const GroupId& group, const Suspended& suspended) {
  if (Communicator* communicator = communicators_.find(group)) agreement_.vote(*communicator, suspended);
}

void Coordinator::forget_group(WorldRank rank, const GroupId& group) {
  sizes_.forget(group);
  if (!context_.serves(rank)) return;
  context_.host.resume_calls(rank, group, nullptr);
  Communicator& communicator = communicators_.get(group);
  communicator.freed.insert(rank);
  communicators_.close_if_freed(communicator);
}

void Coordinator::drop_rank(WorldRank rank) {
  if (!context_.serves(rank)) return;
  context_.dropped.insert(rank);
  std::vector<GroupId> ids;
  for (const auto& [id, communicator] : communicators_.all()) ids.push_back(id);
  for (const GroupId& id : ids) communicators_.close_if_freed(communicators_.get(id));
}

// ---------------------------------------------------------------- peers

// From a service process with members, or, of the leader, with the first of them. Members may not be known yet: each
// handler looks for itself.
bool Coordinator::claims_hold(SpId from, const Message& message) {
  const Communicator* communicator = communicators_.find(message.header.operation.group);
  if (communicator == nullptr || communicator->members == nullptr) return true;
  const bool of_leader = std::holds_alternative<Hold>(message.body) || std::holds_alternative<Resume>(message.body);
  return of_leader ? communicators_.leader_of(*communicator) == from : communicator->serves_members(from);
}

bool Coordinator::receive(SpId from, std::span<const std::byte> bytes) {
  const std::optional<Message> message = from == context_.config.self ? std::nullopt : decode(bytes);
  if (!message || !claims_hold(from, *message)) return false;
  const auto& [from_epoch, to_epoch, about] = message->header;
  if (from_epoch < context_.epoch_of(from)) return true;
  if (to_epoch != Epoch{0} && to_epoch != context_.config.epoch) return true;  // for a predecessor
  peer_restarted(from, from_epoch);
  if (const auto* vote = std::get_if<Vote>(&message->body)) agreement_.on_vote(from, about, *vote);
  if (std::holds_alternative<Hold>(message->body)) agreement_.on_hold(from, about);
  if (const auto* held = std::get_if<Held>(&message->body)) agreement_.on_held(from, about, *held);
  if (const auto* resume = std::get_if<Resume>(&message->body)) agreement_.on_resume(from, about, *resume);
  if (const auto* measured = std::get_if<Measured>(&message->body)) trials_.on_measured(from, about, *measured);
  return true;
}

void Coordinator::peer_restarted(SpId peer, Epoch epoch) {
  Epoch& known = context_.peer_epochs[peer];
  if (epoch <= known) return;
  known = epoch;
  if (epoch <= Epoch{1}) return;
  for (auto& [id, communicator] : communicators_.all()) {
    communicator.votes.erase(peer);
    agreement_.peer_restarted(communicator, peer);
  }
}

void Coordinator::restore_plan(const GroupId& group, const PlanChange& newest) {
  if (Communicator* communicator = communicators_.find(group)) agreement_.restore(*communicator, newest);
}

}  // namespace outrigger::steer
