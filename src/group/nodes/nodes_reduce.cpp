// Reduce across nodes, piece by piece: each node combines its contributions, at its first member or at the root. Then
// the root combines the nodes' partial results, in the order of nodes.
//
// N nodes, n bytes:
//     wire    n (N - 1) into the root's node
#include <algorithm>

#include "group/nodes/node_collectives.hpp"

namespace outrigger::group {
namespace {

using intranode::Outcome;

constexpr std::uint64_t kReducedPiece = std::uint64_t{1} << 20;

}  // namespace

Outcome NodeCollectives::reduce(const std::byte* from, std::byte* into, std::uint64_t elements,
                                const NodesCombine& combine, std::uint32_t root) {
  const std::uint64_t element = combine.element_bytes();
  exchange_.begin(intranode::CallWord(CollectiveCall::reduce, root, elements * element));
  const bool is_root = layout_.rank() == root;
  const std::uint32_t place = layout_.is_here(root) ? layout_.place_of(root) : 0;
  const std::uint64_t piece = kReducedPiece / combine.partial_bytes();
  for (std::uint64_t done = 0; done < elements; done += piece) {
    const std::uint64_t count = std::min(piece, elements - done);
    const std::uint64_t bytes = count * combine.partial_bytes();
    Partials partials(partials_, layout_.nodes(), bytes);
    if (is_root) expect_partials(partials);
    const std::byte* own = partial_at(place, from + done * element, count, combine);
    if (own == nullptr) return Outcome::ended;
    if (!layout_.is_here(root) && is_first_here()) exchange_.send(root, {own, bytes});
    // The next piece takes the same memory.
    if (exchange_.finish() != Outcome::done) return Outcome::ended;
    if (is_root) combine.finish(partials.with(layout_.node(), own), into + done * element, count);
  }
  return Outcome::done;
}

// From the first members of the other nodes.
void NodeCollectives::expect_partials(Partials& partials) {
  for (std::uint32_t distance = 1; distance < layout_.nodes(); ++distance) {
    exchange_.receive(first_of(after(distance)), partials.of(after(distance)));
  }
}

const std::byte* NodeCollectives::partial_at(std::uint32_t place, const std::byte* from, std::uint64_t elements,
                                             const NodesCombine& combine) {
  if (combine.widens()) {
    wide_.resize(elements * combine.partial_bytes());
    combine.widen(from, wide_.data(), elements);
    from = wide_.data();
  }
  if (team_.size() == 1) return from;
  const std::uint64_t bytes = elements * combine.partial_bytes();
  own_partial_.resize(bytes);
  const Outcome outcome = team_.reduce({from, bytes}, own_partial_.data(), combine.within(), place);
  return outcome == Outcome::done ? own_partial_.data() : nullptr;
}

}  // namespace outrigger::group
