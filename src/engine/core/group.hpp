// A communicator as one service process knows it: its members and their service processes, the progress of its local
// ranks, the announcements that wait for a credit, and its open operations.
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

// Members of a group and their service processes. Constant once made; O(group).
class Membership {
 public:
  using Members = std::shared_ptr<const std::vector<WorldRank>>;

  // nullptr if the list names an unknown rank or one rank twice.
  [[nodiscard]] static std::unique_ptr<const Membership> make(const Context& context, Members members);

  [[nodiscard]] std::size_t size() const { return members_->size(); }
  [[nodiscard]] const std::vector<WorldRank>& members() const { return *members_; }
  [[nodiscard]] bool contains(GroupRank rank) const { return index_of(rank) < size(); }
  [[nodiscard]] WorldRank world(GroupRank rank) const { return (*members_)[index_of(rank)]; }
  [[nodiscard]] std::optional<GroupRank> find(WorldRank rank) const;

  // Members served here, in ascending group rank.
  [[nodiscard]] std::span<const GroupRank> local() const { return local_; }

  // The other service processes with members, and those members in ascending order. The order is round-robin, by first
  // member, from the process after this one.
  struct Peer {
    SpId sp;
    std::vector<GroupRank> ranks;
    bool on_own_node = false;
  };
  static constexpr std::uint32_t kSelf = ~std::uint32_t{0};
  [[nodiscard]] const std::vector<Peer>& peers() const { return peers_; }
  // kSelf if the rank is local
  [[nodiscard]] std::uint32_t peer_of(GroupRank rank) const { return peer_of_[index_of(rank)]; }
  [[nodiscard]] std::uint32_t number_at_peer(GroupRank rank) const { return number_at_peer_[index_of(rank)]; }
  [[nodiscard]] SpId service_of(GroupRank rank) const {
    return peer_of(rank) == kSelf ? self_ : peers_[peer_of(rank)].sp;
  }

  [[nodiscard]] SpId self() const { return self_; }

  [[nodiscard]] bool on_own_node(GroupRank rank) const {
    return peer_of(rank) == kSelf || peers_[peer_of(rank)].on_own_node;
  }
  // Service processes with members, in ascending order, including this one: all, and those of this node.
  [[nodiscard]] const std::vector<SpId>& services() const { return services_; }
  [[nodiscard]] const std::vector<SpId>& services_of_node() const { return services_of_node_; }
  [[nodiscard]] std::size_t place_of(SpId service) const;  // index in services()
  // The first service process of each node, in ascending order, and the index of a service process's node.
  [[nodiscard]] const std::vector<SpId>& leaders_of_nodes() const { return leaders_of_nodes_; }
  [[nodiscard]] std::size_t node_of(SpId service) const;
  // By node index: the node's service processes with members, in ascending order.
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
  std::vector<std::uint32_t> node_of_service_;  // parallel to services_
  std::vector<std::uint32_t> peer_of_;
  std::vector<std::uint32_t> number_at_peer_;  // index in Peer::ranks or local()
};

// Announcements of one group to one peer. An operation that is announced and not settled holds a credit. The others
// wait here, lowest sequence first. A sequence at or below an announced one is sent without a credit: the peer's ranks
// may need it before they post more.
struct CreditLine {
  std::uint32_t in_use = 0;
  std::uint64_t next = 0;  // one above the highest sequence that was announced with a credit
  std::set<std::pair<std::uint64_t, GroupRank>> waiting;  // (sequence, local rank)
};

// How the operation ended for a local rank with this progress; nullopt while it is open.
[[nodiscard]] std::optional<CompletionStatus> end_of(const Context& context, WorldRank rank, const Progress& progress,
                                                     std::uint64_t sequence);
// Tells of the end of all local ranks that have ended the operation and may be members: those with a progress, and
// those that were lost before they had one. The receiver knows who is a member.
void tell_of_ended(Context& context, const std::map<WorldRank, Progress>& known, SpId to, const OperationId& operation);

class Group {
 public:
  Group(Context& context, GroupId id);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  [[nodiscard]] GroupId id() const { return id_; }
  [[nodiscard]] const Membership* membership() const { return membership_.get(); }
  // False if the group is already known with other members.
  [[nodiscard]] bool set_members(const Membership::Members& members);

  [[nodiscard]] Progress& progress(WorldRank rank) { return progress_[rank]; }
  [[nodiscard]] std::map<WorldRank, Progress>& all_progress() { return progress_; }
  [[nodiscard]] const std::map<WorldRank, Progress>& all_progress() const { return progress_; }

  // How the operation ended for the rank; nullopt while it is open.
  [[nodiscard]] std::optional<CompletionStatus> finished(WorldRank rank, std::uint64_t sequence) const;

  [[nodiscard]] Operation& operation(std::uint64_t sequence);  // made at first use
  [[nodiscard]] Operation* find_operation(std::uint64_t sequence);
  [[nodiscard]] std::map<std::uint64_t, std::unique_ptr<Operation>>& operations() { return operations_; }
  [[nodiscard]] const std::map<std::uint64_t, std::unique_ptr<Operation>>& operations() const { return operations_; }

  [[nodiscard]] std::vector<CreditLine>& credit_lines() { return credit_lines_; }
  [[nodiscard]] const std::vector<CreditLine>& credit_lines() const { return credit_lines_; }

  // Sends waiting announcements to the peer while credits last.
  void send_waiting(std::uint32_t peer);

  // Announcements without bytes that its operations keep; limited by EngineLimits.
  std::uint32_t waiting_announcements = 0;

 private:
  Context& context_;
  GroupId id_;
  std::unique_ptr<const Membership> membership_;
  std::map<WorldRank, Progress> progress_;
  std::vector<CreditLine> credit_lines_;  // parallel to Membership::peers()
  std::map<std::uint64_t, std::unique_ptr<Operation>> operations_;
};

}  // namespace outrigger::engine
