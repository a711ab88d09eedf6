#include "mpi/intranode/nodes_team.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/tick_clock.hpp"
#include "intranode/sums/order_learner.hpp"
#include "intranode/sums/sum_tree.hpp"
#include "mpi/native/abi.hpp"

namespace outrigger::mpi {
namespace {

using intranode::CallWord;
using intranode::Difference;
using intranode::Outcome;

// Counts of the MPI's calls between leaders are ints, in bytes.
constexpr std::uint64_t kMostVector = std::uint64_t{1} << 30;
// Leaders hold the blocks of all ranks.
constexpr std::uint64_t kMostStaged = std::uint64_t{4} << 20;
// Contributions of all ranks, which each of them combines.
constexpr std::uint64_t kMostInOrder = std::uint64_t{16} << 10;
// Memory up to this size is kept for the next operation.
constexpr std::size_t kKeptRoom = std::size_t{1} << 20;

// They may be the same.
void copy_bytes(std::byte* into, std::span<const std::byte> from) {
  if (!from.empty() && into != from.data()) std::memcpy(into, from.data(), from.size());
}

// There is a contribution each `step` bytes.
void combine_rows(const intranode::Combine& combine, const std::byte* rows, std::uint64_t step, std::uint32_t members,
                  std::span<std::byte> into) {
  std::array<const std::byte*, intranode::kMostMembers> contributions{};
  for (std::uint32_t member = 0; member < members; ++member) contributions.at(member) = rows + step * member;
  combine.apply(std::span(contributions).first(members), into.data(), 0, combine.elements_in(into.size()));
}

// True: only the MPI knows the bits.
bool combine_extrema(const Reduction& reduction, const std::byte* rows, std::uint64_t step, std::uint32_t members,
                     std::span<std::byte> into) {
  const intranode::SumOrder any(intranode::SumTree::linear(members));
  const intranode::OrderCombine combine(reduction, any);
  combine_rows(combine, rows, step, members, into);
  return combine.asks_native();
}

std::span<std::byte> row_in(const intranode::Blocks& blocks, std::uint64_t bytes, std::byte* otherwise) {
  return {blocks.is_regular() ? blocks.base : otherwise, bytes};
}

}  // namespace

NodesTeam::NodesTeam(intranode::Team& node, Leaders leaders, NodesMap map, std::uint32_t rank)
    : node_(node), leaders_(std::move(leaders)), map_(std::move(map)), me_(rank), my_node_(map_.node_of(rank)) {}

bool NodesTeam::takes(CollectiveCall call, std::uint64_t bytes) const {
  switch (call) {
    case CollectiveCall::barrier: return true;
    case CollectiveCall::bcast:
    case CollectiveCall::reduce:
    case CollectiveCall::allreduce: return bytes <= kMostVector;
    case CollectiveCall::allgather:
    case CollectiveCall::gather:
    case CollectiveCall::scatter: return bytes <= kMostStaged / map_.ranks();
    case CollectiveCall::alltoall: return bytes <= kMostStaged / map_.ranks() / map_.largest();
    default: return false;
  }
}

Outcome NodesTeam::barrier() {
  std::byte nothing{};
  std::array<std::byte, intranode::kMostMembers> room{};
  if (node_.gather({&nothing, 1}, Blocks::regular(room.data(), 1), 0) != Outcome::done) return Outcome::ended;
  if (leads() && !between(leaders_.barrier())) return Outcome::ended;
  return node_.broadcast({&nothing, 1}, 0);
}

Outcome NodesTeam::broadcast(std::span<std::byte> buffer, std::uint32_t root) {
  if (buffer.empty()) return Outcome::done;
  const std::uint32_t local_root = map_.local_of(root);
  const bool is_spread = is_here(root) && local_root != 0;
  if (is_spread && node_.broadcast(buffer, local_root) != Outcome::done) return Outcome::ended;
  if (leads() && !between(leaders_.broadcast(buffer, map_.node_of(root)))) return Outcome::ended;
  return is_spread ? Outcome::done : node_.broadcast(buffer, 0);
}

Outcome NodesTeam::gather(std::span<const std::byte> mine, const Blocks& into, std::uint32_t root) {
  const bool is_root = root == me_;
  const std::uint64_t each = is_root ? into.each : mine.size();
  if (each == 0) return Outcome::done;
  if (mine.size() > each) return differ(CallWord(CollectiveCall::gather, root, each), mine.size(), each);
  std::span<const std::byte> given = mine;
  if (mine.size() < each) {  // the root's own
    copy_bytes(room(Room::own, each), mine);
    given = {room(Room::own, each), each};
  }
  std::byte* local = leads() ? room(Room::local, each * here()) : nullptr;
  if (node_.gather(given, Blocks::regular(local, each), 0) != Outcome::done) return Outcome::ended;

  const std::uint64_t total = each * map_.ranks();
  const bool holds_all = is_here(root) && (leads() || is_root);
  std::byte* sorted = holds_all ? room(Room::sorted, total) : nullptr;
  if (leads() && !between(leaders_.gather({local, each * here()}, sorted, each, map_, map_.node_of(root))))
    return Outcome::ended;
  const std::span<std::byte> all(sorted, holds_all ? total : 0);
  if (is_here(root) && hand_on(all, all, 0, map_.local_of(root)) != Outcome::done) return Outcome::ended;
  if (!is_root) return done(Outcome::done);
  for (std::uint32_t rank = 0; rank < map_.ranks(); ++rank) {
    if (rank != me_) copy_bytes(into.of(rank).data(), all.subspan(each * map_.place_of(rank), each));
  }
  copy_bytes(into.of(me_).data(), mine);
  return done(Outcome::done);
}

Outcome NodesTeam::scatter(const Blocks& from, std::span<std::byte> mine, std::uint32_t root) {
  const bool is_root = root == me_;
  const std::uint64_t each = is_root ? from.each : mine.size();
  if (each == 0) return Outcome::done;
  if (mine.size() < each) return differ(CallWord(CollectiveCall::scatter, root, each), each, mine.size());
  const std::uint64_t total = each * map_.ranks();
  const bool holds_all = is_here(root) && (leads() || is_root);
  std::byte* sorted = holds_all ? room(Room::sorted, total) : nullptr;
  for (std::uint32_t rank = 0; is_root && rank < map_.ranks(); ++rank) {
    copy_bytes(sorted + each * map_.place_of(rank), from.of(rank));
  }
  const std::span<std::byte> all(sorted, holds_all ? total : 0);
  if (is_here(root) && hand_on(all, all, map_.local_of(root), 0) != Outcome::done) return Outcome::ended;
  std::byte* local = leads() ? room(Room::local, each * here()) : nullptr;
  if (leads() && !between(leaders_.scatter(sorted, {local, each * here()}, each, map_, map_.node_of(root))))
    return Outcome::ended;
  const std::span<std::byte> got = is_root ? std::span(room(Room::own, each), each) : mine;
  if (node_.scatter(Blocks::regular(local, each), got, 0) != Outcome::done) return Outcome::ended;
  if (is_root) copy_bytes(mine.data(), from.of(me_));
  return done(Outcome::done);
}

Outcome NodesTeam::allgather(std::span<const std::byte> mine, const Blocks& into) {
  const std::uint64_t each = into.each;
  if (mine.size() != each) return differ(CallWord(CollectiveCall::allgather, 0, each), mine.size(), each);
  if (each == 0) return Outcome::done;
  const std::uint64_t total = each * map_.ranks();
  const std::span<std::byte> all = row_in(into, total, into.is_regular() ? nullptr : room(Room::other, total));
  std::byte* sorted = !leads() ? nullptr : map_.is_sorted() ? all.data() : room(Room::sorted, total);
  std::byte* local = leads() ? sorted + each * map_.first_place_of(my_node_) : nullptr;
  if (node_.gather(mine, Blocks::regular(local, each), 0) != Outcome::done) return Outcome::ended;
  if (leads() && !between(leaders_.allgather_in_place(sorted, each, map_))) return Outcome::ended;
  for (std::uint32_t rank = 0; leads() && !map_.is_sorted() && rank < map_.ranks(); ++rank) {
    copy_bytes(all.data() + each * rank, {sorted + each * map_.place_of(rank), each});
  }
  if (node_.broadcast(all, 0) != Outcome::done) return Outcome::ended;
  for (std::uint32_t rank = 0; !into.is_regular() && rank < map_.ranks(); ++rank) {
    copy_bytes(into.of(rank).data(), all.subspan(each * rank, each));
  }
  return done(Outcome::done);
}

Outcome NodesTeam::alltoall(const Blocks& from, const Blocks& into) {
  const std::uint64_t each = into.each;
  if (from.each != each) return differ(CallWord(CollectiveCall::alltoall, 0, each), from.each, each);
  if (each == 0) return Outcome::done;
  const std::uint64_t row = each * map_.ranks();
  const std::span<std::byte> sent = row_in(from, row, from.is_regular() ? nullptr : room(Room::own, row));
  for (std::uint32_t rank = 0; !from.is_regular() && rank < map_.ranks(); ++rank) {
    copy_bytes(sent.data() + each * rank, from.of(rank));
  }
  std::byte* rows = leads() ? room(Room::local, row * here()) : nullptr;
  if (node_.gather(sent, Blocks::regular(rows, row), 0) != Outcome::done) return Outcome::ended;
  if (leads()) {
    std::byte* out = room(Room::sorted, row * here());
    std::byte* in = room(Room::other, row * here());
    sort_by_target_node(rows, out, each);
    if (!between(leaders_.alltoall(out, in, each * here(), map_))) return Outcome::ended;
    sort_by_source(in, rows, each);
  }
  const std::span<std::byte> got = row_in(into, row, into.is_regular() ? nullptr : room(Room::own, row));
  if (node_.scatter(Blocks::regular(rows, row), got, 0) != Outcome::done) return Outcome::ended;
  for (std::uint32_t rank = 0; !into.is_regular() && rank < map_.ranks(); ++rank) {
    copy_bytes(into.of(rank).data(), got.subspan(each * rank, each));
  }
  return done(Outcome::done);
}

// For each node: from each rank here, to each rank there.
void NodesTeam::sort_by_target_node(const std::byte* rows, std::byte* sorted, std::uint64_t each) const {
  for (std::uint32_t node = 0; node < map_.nodes(); ++node) {
    for (std::uint32_t source = 0; source < here(); ++source) {
      for (const std::uint32_t target : map_.ranks_of(node)) {
        copy_bytes(sorted, {rows + each * (std::uint64_t{source} * map_.ranks() + target), each});
        sorted += each;
      }
    }
  }
}

// The same as other nodes have sorted it, into a row for each rank here.
void NodesTeam::sort_by_source(const std::byte* sorted, std::byte* rows, std::uint64_t each) const {
  for (std::uint32_t node = 0; node < map_.nodes(); ++node) {
    for (const std::uint32_t source : map_.ranks_of(node)) {
      for (std::uint32_t target = 0; target < here(); ++target) {
        copy_bytes(rows + each * (std::uint64_t{target} * map_.ranks() + source), {sorted, each});
        sorted += each;
      }
    }
  }
}

// MPICH 4.0 crashes in a reduce in place with another root than 0.
Outcome NodesTeam::reduce(std::span<const std::byte> mine, std::byte* into, const intranode::Combine& combine,
                          const NativeReduction& between_nodes, std::uint32_t root) {
  const std::uint64_t bytes = mine.size();
  if (bytes == 0) return Outcome::done;
  std::byte* local = leads() ? room(Room::local, bytes) : nullptr;
  if (node_.reduce(mine, local, combine, 0) != Outcome::done) return Outcome::ended;
  const bool is_root = root == me_;
  std::byte* result = is_root ? into : leads() && is_here(root) ? room(Room::sorted, bytes) : nullptr;
  if (leads() && !between(leaders_.reduce(local, result, between_nodes, map_.node_of(root)))) return Outcome::ended;
  const std::span<std::byte> all(result, result == nullptr ? 0 : bytes);
  return done(is_here(root) ? hand_on(all, all, 0, map_.local_of(root)) : Outcome::done);
}

Outcome NodesTeam::allreduce(std::span<const std::byte> mine, std::byte* into, const intranode::Combine& combine,
                             const NativeReduction& between_nodes) {
  if (mine.empty()) return Outcome::done;
  if (node_.reduce(mine, into, combine, 0) != Outcome::done) return Outcome::ended;
  if (leads() && !between(leaders_.allreduce_in_place(into, between_nodes))) return Outcome::ended;
  return node_.broadcast({into, mine.size()}, 0);
}

bool NodesTeam::takes_in_order(std::uint64_t bytes) const {
  return map_.ranks() <= intranode::kMostMembers && bytes <= kMostInOrder / map_.ranks();
}

Outcome NodesTeam::reduce_in_order(std::span<const std::byte> mine, std::byte* into, const intranode::Combine& combine,
                                   std::optional<std::uint32_t> root) {
  const std::uint64_t bytes = mine.size();
  if (bytes == 0) return Outcome::done;
  const bool receives = !root || *root == me_;
  std::byte* all = receives ? room(Room::contributions, bytes * map_.ranks()) : nullptr;
  const Blocks blocks = Blocks::regular(all, bytes);
  if ((root ? gather(mine, blocks, *root) : allgather(mine, blocks)) != Outcome::done) return Outcome::ended;
  if (!receives) return Outcome::done;
  combine_rows(combine, all, bytes, map_.ranks(), {into, bytes});
  return Outcome::done;
}

// Ranks may have different rounding modes, so that their results differ. One more element of the vector, with exact
// results, tells all leaders whether a node's result has a NaN.
Outcome NodesTeam::allreduce_sums(std::span<const std::byte> mine, std::byte* into,
                                  const intranode::OrderCombine& combine, const NativeReduction& between_nodes,
                                  bool& asks_native) {
  const std::uint64_t bytes = mine.size();
  if (bytes == 0) return Outcome::done;
  const Reduction& reduction = combine.reduction();
  const std::uint64_t held = leads() ? bytes : 0;
  std::byte* local = room(Room::local, held + combine.element_bytes());
  const std::span<std::byte> mark(local + held, combine.element_bytes());
  if (node_.reduce(mine, leads() ? local : into, combine, 0) != Outcome::done) return Outcome::ended;
  if (leads()) {
    const bool has_nans = intranode::has_nans(reduction, local, combine.elements_in(bytes));
    copy_bytes(mark.data(), intranode::marked_element(reduction, has_nans));
    const NativeReduction with_mark{between_nodes.count + 1, between_nodes.type, between_nodes.operation};
    if (!between(leaders_.allreduce_in_place(local, with_mark))) return Outcome::ended;
    copy_bytes(into, {local, bytes});
  }
  if (node_.broadcast(mark, 0) != Outcome::done) return Outcome::ended;
  if (node_.broadcast({into, bytes}, 0) != Outcome::done) return Outcome::ended;
  asks_native = intranode::is_marked(reduction, mark);
  return done(Outcome::done);
}

bool NodesTeam::takes_extrema(std::uint64_t bytes) const {
  const std::uint32_t members = std::max(map_.largest(), map_.nodes());
  return members <= intranode::kMostMembers && bytes <= kMostInOrder / members;
}

// A node's result, and whether it asks, is one block for the leaders.
Outcome NodesTeam::allreduce_extrema(std::span<const std::byte> mine, std::byte* into, const Reduction& reduction,
                                     bool& asks_native) {
  const std::uint64_t bytes = mine.size();
  if (bytes == 0) return Outcome::done;
  std::byte* local = leads() ? room(Room::local, bytes * here()) : nullptr;
  if (node_.gather(mine, Blocks::regular(local, bytes), 0) != Outcome::done) return Outcome::ended;
  constexpr std::uint64_t kAligned = alignof(long double);
  const std::uint64_t at = (bytes + kAligned - 1) / kAligned * kAligned;
  const std::uint64_t block = at + kAligned;
  std::byte* result = room(Room::own, block);
  if (leads()) {
    std::byte* all = room(Room::sorted, block * map_.nodes());
    std::byte* own = all + block * my_node_;
    own[at] = std::byte{combine_extrema(reduction, local, bytes, here(), {own, bytes})};
    if (!between(leaders_.allgather_of_nodes_in_place(all, block))) return Outcome::ended;
    result[at] = std::byte{combine_extrema(reduction, all, block, map_.nodes(), {result, bytes})};
    for (std::uint32_t node = 0; node < map_.nodes(); ++node) result[at] |= all[block * node + at];
  }
  if (node_.broadcast({result, block}, 0) != Outcome::done) return Outcome::ended;
  copy_bytes(into, {result, bytes});
  asks_native = result[at] != std::byte{};
  return Outcome::done;
}

Outcome NodesTeam::hand_on(std::span<const std::byte> from, std::span<std::byte> into, std::uint32_t source,
                           std::uint32_t target) {
  if (source == target) return Outcome::done;
  const bool gives = node_.rank() == source;
  std::array<std::uint64_t, intranode::kMostMembers> bytes{};
  const std::array<std::uint64_t, intranode::kMostMembers> offsets{};
  bytes.at(source) = node_.rank() == target ? into.size() : 0;
  const Blocks blocks = Blocks::irregular(into.data(), bytes.data(), offsets.data());
  return node_.gatherv(gives ? from : std::span<const std::byte>(), blocks, target);
}

// All leaders leave a barrier at about the same time. The middle of several differences.
Outcome NodesTeam::compare_clocks(std::int64_t& ahead_ns) {
  std::array<std::int64_t, 5> left{};
  std::array<std::int64_t, 5> first{};
  for (std::int64_t& time : left) {
    if (leads() && !between(leaders_.barrier())) return Outcome::ended;
    time = TickClock::now_ns();
  }
  first = left;
  if (leads() && !between(leaders_.broadcast(std::as_writable_bytes(std::span(first)), 0))) return Outcome::ended;
  for (std::size_t i = 0; i < left.size(); ++i) first.at(i) -= left.at(i);
  std::ranges::sort(first);
  ahead_ns = first.at(first.size() / 2);
  return node_.broadcast(std::as_writable_bytes(std::span(&ahead_ns, 1)), 0);
}

std::byte* NodesTeam::room(Room which, std::uint64_t bytes) {
  std::vector<std::byte>& memory = rooms_.at(static_cast<std::size_t>(which));
  if (memory.size() < bytes) memory.resize(bytes);
  return memory.data();
}

Outcome NodesTeam::done(Outcome outcome) {
  for (std::vector<std::byte>& memory : rooms_) {
    if (memory.size() > kKeptRoom) std::vector<std::byte>().swap(memory);
  }
  return outcome;
}

bool NodesTeam::between(int code) {
  error_ = code;
  return code == MPI_SUCCESS;
}

// Within this rank's own arguments.
Outcome NodesTeam::differ(CallWord call, std::uint64_t given, std::uint64_t room) {
  difference_ = Difference{.other = me_, .mine = call, .theirs = call, .lengths = true, .given = given, .room = room};
  return Outcome::ended;
}

}  // namespace outrigger::mpi
