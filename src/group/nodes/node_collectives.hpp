// Collectives of a group whose members are on several nodes. Members of a node are a team with shared memory; members
// of different nodes have a stream for each pair, and exchange what the other node needs. A rank has a helper in
// each other node: the member to which it gives what is for all of that node, and from which it gets that node's part.
// Helpers differ from rank to rank, so all share the work.
//
// Arguments and outcomes are those of intranode::Team, with ranks of the group. Each operation is in a file of its own
// name.
//
// Thread rule: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "group/combines.hpp"
#include "group/layout.hpp"
#include "group/nodes/exchange.hpp"
#include "group/team_slices.hpp"
#include "intranode/member_blocks.hpp"
#include "intranode/team.hpp"

namespace outrigger::group {

// The nodes' partial results of a vector, one after the other in memory that is kept.
class Partials {
 public:
  Partials(std::vector<std::byte>& memory, std::uint32_t nodes, std::uint64_t bytes) : bytes_(bytes), places_(nodes) {
    memory.resize(nodes * bytes);
    for (std::uint32_t node = 0; node < nodes; ++node) places_[node] = memory.data() + node * bytes;
  }
  [[nodiscard]] std::span<std::byte> of(std::uint32_t node) const { return {places_[node], bytes_}; }
  // All of them, with the own one elsewhere.
  [[nodiscard]] std::vector<const std::byte*> with(std::uint32_t node, const std::byte* own) const {
    std::vector<const std::byte*> all(places_.begin(), places_.end());
    all[node] = own;
    return all;
  }

 private:
  std::uint64_t bytes_;
  std::vector<std::byte*> places_;
};

class NodeCollectives {
 public:
  // `streams` as Exchange wants them. The others outlive it.
  NodeCollectives(intranode::Team& team, const Layout& layout, std::vector<std::unique_ptr<Stream>> streams,
                  MemberWatch& watch, const MemberWaiter& waiter)
      : team_(team), layout_(layout), exchange_(layout, std::move(streams), watch, waiter), orders_(layout) {}

  [[nodiscard]] const NodesCombine::Orders& orders() const { return orders_; }
  // In ranks of the group: why the last operation has ended, if calls of members of different nodes differ.
  [[nodiscard]] const std::optional<intranode::Difference>& difference() const { return exchange_.difference(); }

  intranode::Outcome barrier();
  intranode::Outcome broadcast(std::span<std::byte> buffer, std::uint32_t root);
  // Equally long.
  intranode::Outcome gather(std::span<const std::byte> mine, const intranode::Blocks& into, std::uint32_t root);
  intranode::Outcome scatter(const intranode::Blocks& from, std::span<std::byte> mine, std::uint32_t root);
  intranode::Outcome all_gather(std::span<const std::byte> mine, const intranode::Blocks& into);
  // Equally long.
  intranode::Outcome all_to_all(const intranode::Blocks& from, const intranode::Blocks& into);
  intranode::Outcome all_to_allv(const intranode::Blocks& from, const intranode::Blocks& into);
  intranode::Outcome reduce(const std::byte* from, std::byte* into, std::uint64_t elements, const NodesCombine& combine,
                            std::uint32_t root);
  intranode::Outcome all_reduce(const std::byte* from, std::byte* into, std::uint64_t elements,
                                const NodesCombine& combine);
  // `counts` of elements.
  intranode::Outcome reduce_scatter(const std::byte* from, std::byte* into, std::span<const std::uint64_t> counts,
                                    const NodesCombine& combine);

  // Before the end of a group that has failed.
  void abandon() { exchange_.abandon(); }
  void also_look(std::function<void()> look) { exchange_.also_look(std::move(look)); }
  // Frees memory that is kept for the next call.
  void shrink(std::uint64_t most) {
    for (std::vector<std::byte>* one : {&wide_, &own_partial_, &partials_}) {
      if (one->capacity() > most) *one = {};
    }
  }

 private:
  // The member of a node to which `rank` of another node gives, and from which it gets.
  [[nodiscard]] std::uint32_t helper(std::uint32_t node, std::uint32_t rank) const {
    const std::vector<std::uint32_t>& members = layout_.members(node);
    return members[layout_.place_of(rank) % members.size()];
  }
  [[nodiscard]] std::uint32_t first_of(std::uint32_t node) const { return layout_.members(node).front(); }
  [[nodiscard]] bool is_first_here() const { return layout_.place() == 0; }
  // The node `distance` after the own one, in a circle.
  [[nodiscard]] std::uint32_t after(std::uint32_t distance) const {
    return (layout_.node() + distance) % layout_.nodes();
  }
  template <class Visit>
  void for_each_elsewhere(Visit visit) const {
    for (std::uint32_t distance = 1; distance < layout_.nodes(); ++distance) {
      for (const std::uint32_t rank : layout_.members(after(distance))) visit(rank);
    }
  }

  // Parts of operations.
  [[nodiscard]] intranode::Outcome exchange_blocks(const intranode::Blocks& from, const intranode::Blocks& into);
  void send_in_pieces(std::uint32_t member, std::span<const std::byte> from);
  [[nodiscard]] intranode::Outcome gather_all(std::span<const std::byte> mine, const intranode::Blocks& into);
  [[nodiscard]] intranode::Outcome share_helped(const std::vector<std::uint32_t>& ranks, const intranode::Blocks& into);
  [[nodiscard]] intranode::Outcome reduce_blocks(const std::byte* from, std::byte* into,
                                                 std::span<const std::uint64_t> counts, const NodesCombine& combine);
  [[nodiscard]] std::vector<std::uint32_t> combined_by(std::uint32_t place) const;
  [[nodiscard]] intranode::Outcome combine_node(const std::byte* from, std::span<const std::uint64_t> counts,
                                                const NodesCombine& combine, std::span<const std::byte*> combined);
  [[nodiscard]] intranode::Outcome all_reduce_whole(const std::byte* from, std::byte* into, std::uint64_t elements,
                                                    const NodesCombine& combine);
  void expect_partials(Partials& partials);
  // The own node's partial result, at the member of that place. nullptr: it has ended.
  [[nodiscard]] const std::byte* partial_at(std::uint32_t place, const std::byte* from, std::uint64_t elements,
                                            const NodesCombine& combine);

  intranode::Team& team_;
  const Layout& layout_;
  Exchange exchange_;
  NodesCombine::Orders orders_;
  // Memory of a call.
  std::vector<std::byte> wide_;
  std::vector<std::byte> own_partial_;
  std::vector<std::byte> partials_;
};

}  // namespace outrigger::group
