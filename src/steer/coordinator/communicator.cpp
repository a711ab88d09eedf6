#include "steer/coordinator/communicator.hpp"

#include <algorithm>

namespace outrigger::steer {

bool Communicator::serves_members(SpId service) const {
  return std::ranges::binary_search(services, service);
}

bool Communicator::has_local(WorldRank rank) const {
  return std::ranges::find(local, rank) != local.end();
}

Communicator& Communicators::get(const GroupId& id) {
  const auto [found, added] = communicators_.try_emplace(id);
  if (added) {
    found->second.id = id;
    if (const auto forgotten = forgotten_.find(id); forgotten != forgotten_.end()) {
      found->second.freed = forgotten->second;  // after a restart ranks come back one by one
    }
  }
  return found->second;
}

Communicator* Communicators::find(const GroupId& id) {
  const auto found = communicators_.find(id);
  return found == communicators_.end() ? nullptr : &found->second;
}

Communicator* Communicators::find(const GroupId& id, const Members& members) {
  if (members == nullptr || members->empty()) return nullptr;
  Communicator& communicator = get(id);
  if (communicator.members != nullptr) return &communicator;
  std::set<SpId> services;
  for (const WorldRank rank : *members) {
    if (!context_.knows(rank)) return nullptr;
    services.insert(context_.service_of(rank));
    if (context_.service_of(rank) == context_.config.self) communicator.local.push_back(rank);
  }
  communicator.services.assign(services.begin(), services.end());
  communicator.members = members;
  return &communicator;
}

void Communicators::close_if_freed(Communicator& communicator) {
  const auto is_over = [&](WorldRank rank) { return communicator.freed.contains(rank) || !context_.serves(rank); };
  if (communicator.changing || !std::ranges::all_of(communicator.local, is_over)) return;
  if (communicator.members == nullptr && communicator.freed.empty()) return;  // others' votes wait for a local rank
  const GroupId id = communicator.id;
  const auto [forgotten, added] = forgotten_.try_emplace(id);
  forgotten->second = communicator.freed;
  communicators_.erase(id);
  if (!added) return;
  forgotten_order_.push_back(id);
  if (forgotten_order_.size() <= kMostForgotten) return;
  forgotten_.erase(forgotten_order_.front());
  forgotten_order_.pop_front();
}

}  // namespace outrigger::steer
