#include "engine/core/group.hpp"

#include <algorithm>
#include <cassert>
#include <unordered_map>

#include "engine/core/operation.hpp"

namespace outrigger::engine {

std::unique_ptr<const Membership> Membership::make(const Context& context, Members members) {
  auto made = std::make_unique<Membership>();
  made->peer_of_.reserve(members->size());
  made->number_at_peer_.reserve(members->size());
  std::unordered_map<SpId, std::uint32_t> peer_index;
  std::vector<bool> seen(context.config.sp_of_rank.size(), false);
  for (std::size_t i = 0; i < members->size(); ++i) {
    const WorldRank rank = (*members)[i];
    if (!context.knows(rank) || seen[rank.value()]) return nullptr;
    seen[rank.value()] = true;
    const SpId service = context.service_of(rank);
    if (service == context.config.self) {
      made->peer_of_.push_back(kSelf);
      made->number_at_peer_.push_back(static_cast<std::uint32_t>(made->local_.size()));
      made->local_.push_back(group_rank(i));
      continue;
    }
    const auto [found, added] = peer_index.try_emplace(service, static_cast<std::uint32_t>(made->peers_.size()));
    if (added) made->peers_.push_back(Peer{service, {}, context.share_node(service, context.config.self)});
    Peer& peer = made->peers_[found->second];
    made->peer_of_.push_back(found->second);
    made->number_at_peer_.push_back(static_cast<std::uint32_t>(peer.ranks.size()));
    peer.ranks.push_back(group_rank(i));
  }
  made->begin_after_self();
  made->members_ = std::move(members);
  made->self_ = context.config.self;
  if (!made->local_.empty()) made->services_ = made->services_of_node_ = {made->self_};
  for (const Peer& peer : made->peers_) {
    made->services_.push_back(peer.sp);
    if (peer.on_own_node) made->services_of_node_.push_back(peer.sp);
  }
  std::sort(made->services_.begin(), made->services_.end());
  std::sort(made->services_of_node_.begin(), made->services_of_node_.end());
  made->find_nodes(context);
  return made;
}

// Each service process sends first to the next one, so no peer is the first target of all.
void Membership::begin_after_self() {
  if (local_.empty()) return;
  const auto is_before = [this](const Peer& peer) { return peer.ranks.front() < local_.front(); };
  const auto next = std::find_if_not(peers_.begin(), peers_.end(), is_before);
  const auto before = static_cast<std::uint32_t>(next - peers_.begin());
  const auto count = static_cast<std::uint32_t>(peers_.size());
  std::rotate(peers_.begin(), next, peers_.end());
  for (std::uint32_t& peer : peer_of_) {
    if (peer != kSelf) peer = (peer + count - before) % count;
  }
}

void Membership::find_nodes(const Context& context) {
  std::unordered_map<std::uint32_t, std::uint32_t> place_of_node;
  for (const SpId service : services_) {
    const auto next = static_cast<std::uint32_t>(leaders_of_nodes_.size());
    const auto [found, added] = place_of_node.try_emplace(context.node_of(service), next);
    if (added) {
      leaders_of_nodes_.push_back(service);
      services_by_node_.emplace_back();
    }
    services_by_node_[found->second].push_back(service);
    node_of_service_.push_back(found->second);
  }
}

std::size_t Membership::place_of(SpId service) const {
  const auto found = std::lower_bound(services_.begin(), services_.end(), service);
  assert(found != services_.end() && *found == service && "the service process serves members");
  return static_cast<std::size_t>(found - services_.begin());
}

std::size_t Membership::node_of(SpId service) const {
  return node_of_service_[place_of(service)];
}

std::optional<GroupRank> Membership::find(WorldRank rank) const {
  // In groups like MPI_COMM_WORLD the group rank equals the world rank.
  if (rank.value() < size() && (*members_)[rank.value()] == rank) return GroupRank{rank.value()};
  const auto found = std::find(members_->begin(), members_->end(), rank);
  if (found == members_->end()) return std::nullopt;
  return group_rank(static_cast<std::size_t>(found - members_->begin()));
}

Group::Group(Context& context, GroupId id) : context_(context), id_(id) {}
Group::~Group() = default;

bool Group::set_members(const Membership::Members& members) {
  if (membership_ != nullptr) return &membership_->members() == members.get() || membership_->members() == *members;
  std::unique_ptr<const Membership> made = Membership::make(context_, members);
  if (made == nullptr) return false;
  membership_ = std::move(made);
  credit_lines_.resize(membership_->peers().size());
  return true;
}

std::optional<CompletionStatus> end_of(const Context& context, WorldRank rank, const Progress& progress,
                                       std::uint64_t sequence) {
  if (progress.is_complete(sequence)) return progress.status_of(sequence);
  return context.is_dropped(rank) ? std::optional(CompletionStatus::peer_lost) : std::nullopt;
}

void tell_of_ended(Context& context, const std::map<WorldRank, Progress>& known, SpId to,
                   const OperationId& operation) {
  for (const auto& [rank, progress] : known) {
    const std::optional<CompletionStatus> status = end_of(context, rank, progress, operation.sequence);
    if (status) context.send(to, operation, peer::Finished{rank, *status});
  }
  for (const WorldRank rank : context.dropped_ranks) {
    if (known.contains(rank)) continue;
    context.send(to, operation, peer::Finished{rank, CompletionStatus::peer_lost});
  }
}

std::optional<CompletionStatus> Group::finished(WorldRank rank, std::uint64_t sequence) const {
  const auto found = progress_.find(rank);
  if (found != progress_.end()) return end_of(context_, rank, found->second, sequence);
  return context_.is_dropped(rank) ? std::optional(CompletionStatus::peer_lost) : std::nullopt;
}

Operation& Group::operation(std::uint64_t sequence) {
  std::unique_ptr<Operation>& operation = operations_[sequence];
  if (operation == nullptr) operation.reset(new (context_.memory) Operation(context_, *this, sequence));
  return *operation;
}

Operation* Group::find_operation(std::uint64_t sequence) {
  const auto found = operations_.find(sequence);
  return found == operations_.end() ? nullptr : found->second.get();
}

void Group::send_waiting(std::uint32_t peer) {
  CreditLine& line = credit_lines_[peer];
  const std::uint32_t limit = std::max(1U, context_.config.limits.announce_credits);
  while (!line.waiting.empty()) {
    const auto [sequence, rank] = *line.waiting.begin();
    Operation* operation = find_operation(sequence);
    const bool holds_credit = operation != nullptr && operation->announcer.holds_credit(peer);
    if (sequence >= line.next && line.in_use >= limit) return;
    line.waiting.erase(line.waiting.begin());
    if (operation == nullptr || !operation->announcer.announce_with_credit(rank, peer)) continue;
    if (!holds_credit) ++line.in_use;
    line.next = std::max(line.next, sequence + 1);
  }
}

}  // namespace outrigger::engine
