// A communicator as one service process knows it: its members, who serves them, how far its local ranks are, the
// announcements each peer is owed, and its open operations.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "engine/core/context.hpp"
#include "engine/core/progress.hpp"
#include "protocol/ids.hpp"

namespace outrigger::engine {

class Operation;

[[nodiscard]] constexpr std::size_t index_of(GroupRank rank) {
  return rank.value();
}
[[nodiscard]] constexpr GroupRank group_rank(std::size_t index) {
  return GroupRank{static_cast<std::uint32_t>(index)};
}

// Who is in a group and who serves whom. Constant once made; O(group).
class Membership {
 public:
  using Members = std::shared_ptr<const std::vector<WorldRank>>;

  // Null when the list names an unknown rank or one twice.
  [[nodiscard]] static std::unique_ptr<const Membership> make(const Context& context, Members members);

  [[nodiscard]] std::size_t size() const { return members_->size(); }
  [[nodiscard]] const std::vector<WorldRank>& members() const { return *members_; }
  [[nodiscard]] bool contains(GroupRank rank) const { return index_of(rank) < size(); }
  [[nodiscard]] WorldRank world(GroupRank rank) const { return (*members_)[index_of(rank)]; }
  [[nodiscard]] std::optional<GroupRank> find(WorldRank rank) const;

  // Members served here, ascending by group rank.
  [[nodiscard]] std::span<const GroupRank> local() const { return local_; }

  // The other service processes with members, in the order of their first ones, by turns from the one after this; and
  // those members, ascending.
  struct Peer {
    SpId sp;
    std::vector<GroupRank> ranks;
    bool on_own_node = false;
  };
  static constexpr std::uint32_t kSelf = ~std::uint32_t{0};
  [[nodiscard]] const std::vector<Peer>& peers() const { return peers_; }
  [[nodiscard]] std::uint32_t peer_of(GroupRank rank) const { return peer_of_[index_of(rank)]; }  // kSelf: local
  [[nodiscard]] std::uint32_t number_at_peer(GroupRank rank) const { return number_at_peer_[index_of(rank)]; }
  [[nodiscard]] SpId service_of(GroupRank rank) const {
    return peer_of(rank) == kSelf ? self_ : peers_[peer_of(rank)].sp;
  }

  [[nodiscard]] SpId self() const { return self_; }

  // Is the rank on the node of this service process?
  [[nodiscard]] bool on_own_node(GroupRank rank) const {
    return peer_of(rank) == kSelf || peers_[peer_of(rank)].on_own_node;
  }
  // Service processes with members, ascending, this one included: all, and those of its node.
  [[nodiscard]] const std::vector<SpId>& services() const { return services_; }
  [[nodiscard]] const std::vector<SpId>& services_of_node() const { return services_of_node_; }
  [[nodiscard]] std::size_t place_of(SpId service) const;  // among services()
  // The first of them on each node, ascending, and the place of a service process's node there.
  [[nodiscard]] const std::vector<SpId>& leaders_of_nodes() const { return leaders_of_nodes_; }
  [[nodiscard]] std::size_t node_of(SpId service) const;
  // The same for all: by that place, the node's service processes with members, ascending.
  [[nodiscard]] const std::vector<std::vector<SpId>>& services_by_node() const { return services_by_node_; }

 private:
  void begin_after_self();
  void find_nodes(const Context& context);

  Members members_;
  SpId self_;
  std::vector<GroupRank> local_;
  std::vector<Peer> peers_;
  std::vector<SpId> services_;
  std::vector<SpId> services_of_node_;
  std::vector<SpId> leaders_of_nodes_;
  std::vector<std::vector<SpId>> services_by_node_;
  std::vector<std::uint32_t> node_of_service_;  // as services_
  std::vector<std::uint32_t> peer_of_;
  std::vector<std::uint32_t> number_at_peer_;  // position within Peer::ranks, or within local()
};

// Announcements of one group to one peer: operations announced and not settled hold a credit; the others wait here,
// lowest sequence first. Credits bound how far this service process announces ahead. A sequence at or below one that
// has been announced goes at once, whatever is in use: a local rank that is ahead must not keep one that is behind from
// announcing, since the peer's ranks may be waiting for just that before they post more.
struct CreditLine {
  std::uint32_t in_use = 0;
  std::uint64_t next = 0;                                 // one above the highest sequence announced with a credit
  std::set<std::pair<std::uint64_t, GroupRank>> waiting;  // (sequence, local rank)
};

class Group {
 public:
  Group(Context& context, GroupId id);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  [[nodiscard]] GroupId id() const { return id_; }
  [[nodiscard]] const Membership* membership() const { return membership_.get(); }
  // False when the group is already known with other members.
  [[nodiscard]] bool set_members(const Membership::Members& members);

  [[nodiscard]] Progress& progress(WorldRank rank) { return progress_[rank]; }
  [[nodiscard]] std::map<WorldRank, Progress>& all_progress() { return progress_; }
  [[nodiscard]] const std::map<WorldRank, Progress>& all_progress() const { return progress_; }

  // How the operation ended for the rank; nothing while it has not.
  [[nodiscard]] std::optional<CompletionStatus> finished(WorldRank rank, std::uint64_t sequence) const;

  [[nodiscard]] Operation& operation(std::uint64_t sequence);  // made when there is none
  [[nodiscard]] Operation* find_operation(std::uint64_t sequence);
  [[nodiscard]] std::map<std::uint64_t, std::unique_ptr<Operation>>& operations() { return operations_; }
  [[nodiscard]] const std::map<std::uint64_t, std::unique_ptr<Operation>>& operations() const { return operations_; }

  [[nodiscard]] std::vector<CreditLine>& credit_lines() { return credit_lines_; }
  [[nodiscard]] const std::vector<CreditLine>& credit_lines() const { return credit_lines_; }

  // Sends what waits for credits to the peer, as far as they go.
  void send_waiting(std::uint32_t peer);

  // Kept by its operations, of those without any bytes; EngineLimits has the limit.
  std::uint32_t waiting_announcements = 0;

 private:
  Context& context_;
  GroupId id_;
  std::unique_ptr<const Membership> membership_;
  std::map<WorldRank, Progress> progress_;
  std::vector<CreditLine> credit_lines_;  // as Membership::peers()
  std::map<std::uint64_t, std::unique_ptr<Operation>> operations_;
};

}  // namespace outrigger::engine
