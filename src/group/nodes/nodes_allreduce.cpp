// Allreduce across nodes. Short vectors: the first members of the nodes exchange their nodes' partial results, and each
// combines all of them.
//
// Source: two-level allreduce, as of many MPIs; the exchange is the "allgather" form.
//
// Long vectors: a reduce-scatter to slices, one for each rank, and an allgather of these (R. Rabenseifner,
// "Optimization of Collective Reduction Operations", 2004).
//
// Both combine in the order of ranks within a node, and then in the order of nodes. N nodes, n bytes:
//     short   n (N - 1) into each node, one round
//     long    2 n (N - 1) / N into each node, two rounds
#include <algorithm>

#include "group/nodes/node_collectives.hpp"

namespace outrigger::group {
namespace {

using intranode::Outcome;

// Bytes up to which one round is faster. With two nodes both forms send the same number of bytes.
std::uint64_t most_short(std::uint32_t nodes) {
  return nodes == 2 ? std::uint64_t{256} << 10 : std::uint64_t{32} << 10;
}

}  // namespace

Outcome NodeCollectives::all_reduce(const std::byte* from, std::byte* into, std::uint64_t elements,
                                    const NodesCombine& combine) {
  const std::uint64_t element = combine.element_bytes();
  exchange_.begin(intranode::CallWord(CollectiveCall::allreduce, 0, elements * element));
  if (elements * element <= most_short(layout_.nodes())) return all_reduce_whole(from, into, elements, combine);
  const std::uint64_t piece = kSlicedPiece / element;
  for (std::uint64_t done = 0; done < elements; done += piece) {
    const std::uint64_t count = std::min(piece, elements - done);
    const Row slices = slices_of(count, element, layout_.size());
    std::vector<std::uint64_t> counts = slices.bytes;
    for (std::uint64_t& one : counts) one /= element;
    std::byte* results = into + done * element;
    std::byte* own = results + slices.offsets[layout_.rank()];
    if (reduce_blocks(from + done * element, own, counts, combine) != Outcome::done) return Outcome::ended;
    if (gather_all({own, slices.bytes[layout_.rank()]}, slices.at(results)) != Outcome::done) return Outcome::ended;
  }
  return Outcome::done;
}

Outcome NodeCollectives::all_reduce_whole(const std::byte* from, std::byte* into, std::uint64_t elements,
                                          const NodesCombine& combine) {
  const std::uint64_t bytes = elements * combine.partial_bytes();
  const std::byte* own = partial_at(0, from, elements, combine);
  if (own == nullptr) return Outcome::ended;
  if (is_first_here()) {
    Partials partials(partials_, layout_.nodes(), bytes);
    expect_partials(partials);
    for (std::uint32_t distance = 1; distance < layout_.nodes(); ++distance) {
      exchange_.send(first_of(after(distance)), {own, bytes});
    }
    if (exchange_.finish() != Outcome::done) return Outcome::ended;
    combine.finish(partials.with(layout_.node(), own), into, elements);
  }
  return team_.broadcast({into, elements * combine.element_bytes()}, 0);
}

}  // namespace outrigger::group
