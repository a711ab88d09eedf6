// Reduce-scatter across nodes: each node combines its contributions to all blocks, shared out among its members. A
// member combines its own block, and the blocks of the ranks that it helps. It sends the latter to these ranks, and
// gets its own one's partial results from its helpers. It combines them in the order of nodes.
//
// Picture (nodes {0, 1} and {2, 3}; the block of rank r is r):
//
//     node    0 combines blocks 0, 2    1: 1, 3    2: 2, 0    3: 3, 1
//     wire    0 ◀──▶ 2    1 ◀──▶ 3
//
// N nodes, k members on each, n bytes of all blocks:
//     wire    n (N - 1) / N into and out of each node
#include <numeric>

#include "group/nodes/node_collectives.hpp"

namespace outrigger::group {

using intranode::Outcome;

Outcome NodeCollectives::reduce_scatter(const std::byte* from, std::byte* into, std::span<const std::uint64_t> counts,
                                        const NodesCombine& combine) {
  const std::uint64_t elements = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  if (elements == 0) return Outcome::done;
  exchange_.begin(intranode::CallWord(CollectiveCall::reduce_scatter, 0, elements * combine.element_bytes()));
  return reduce_blocks(from, into, counts, combine);
}

Outcome NodeCollectives::reduce_blocks(const std::byte* from, std::byte* into, std::span<const std::uint64_t> counts,
                                       const NodesCombine& combine) {
  const std::vector<std::uint32_t> ranks = combined_by(layout_.place());
  const std::uint64_t own_bytes = counts[layout_.rank()] * combine.partial_bytes();
  Partials partials(partials_, layout_.nodes(), own_bytes);
  for (std::uint32_t distance = 1; distance < layout_.nodes() && own_bytes > 0; ++distance) {
    exchange_.receive(helper(after(distance), layout_.rank()), partials.of(after(distance)));
  }
  std::vector<const std::byte*> combined(ranks.size());
  if (combine_node(from, counts, combine, combined) != Outcome::done) return Outcome::ended;
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    const std::uint64_t bytes = counts[ranks[i]] * combine.partial_bytes();
    if (bytes > 0) exchange_.send(ranks[i], {combined[i], bytes});
  }
  if (exchange_.finish() != Outcome::done) return Outcome::ended;
  if (own_bytes == 0) return Outcome::done;
  const std::byte* own = combined[0];
  // In place, the own block may begin amid the result.
  if (own != into && own < into + own_bytes && into < own + own_bytes) {
    own_partial_.assign(own, own + own_bytes);
    own = own_partial_.data();
  }
  combine.finish(partials.with(layout_.node(), own), into, counts[layout_.rank()]);
  return Outcome::done;
}

// The own rank first.
std::vector<std::uint32_t> NodeCollectives::combined_by(std::uint32_t place) const {
  std::vector<std::uint32_t> ranks{layout_.here()[place]};
  for_each_elsewhere([&](std::uint32_t rank) {
    if (helper(layout_.node(), rank) == ranks.front()) ranks.push_back(rank);
  });
  return ranks;
}

// The node's partial results of the blocks of combined_by(), and where they are.
Outcome NodeCollectives::combine_node(const std::byte* from, std::span<const std::uint64_t> counts,
                                      const NodesCombine& combine, std::span<const std::byte*> combined) {
  std::vector<std::uint64_t> firsts(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), firsts.begin(), std::uint64_t{0});
  const std::vector<std::uint32_t> own = combined_by(layout_.place());
  if (team_.size() == 1 && !combine.widens()) {
    for (std::size_t i = 0; i < own.size(); ++i) combined[i] = from + firsts[own[i]] * combine.element_bytes();
    return Outcome::done;
  }
  const std::uint64_t elements = firsts.back() + counts.back();
  wide_.resize(elements * combine.partial_bytes());
  std::byte* at = wide_.data();
  std::vector<std::uint64_t> bytes(team_.size());
  for (std::uint32_t place = 0; place < team_.size(); ++place) {
    for (const std::uint32_t rank : combined_by(place)) {
      combine.widen(from + firsts[rank] * combine.element_bytes(), at, counts[rank]);
      at += counts[rank] * combine.partial_bytes();
      bytes[place] += counts[rank] * combine.partial_bytes();
    }
  }
  const Row row(std::move(bytes));
  const std::byte* results = wide_.data();
  if (team_.size() > 1 && row.total() > 0) {
    own_partial_.resize(row.bytes[layout_.place()]);
    results = own_partial_.data();
    const Outcome outcome =
        is_sliced(team_, row.total())
            ? team_.reduce_scatter_directly(wide_.data(), row.bytes, own_partial_.data(), combine.within())
            : team_.reduce_scatter(wide_.data(), row.bytes, own_partial_.data(), combine.within());
    if (outcome != Outcome::done) return outcome;
  }
  for (std::size_t i = 0; i < own.size(); ++i) {
    combined[i] = results;
    results += counts[own[i]] * combine.partial_bytes();
  }
  return Outcome::done;
}

}  // namespace outrigger::group
