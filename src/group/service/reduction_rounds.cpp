#include "group/service/reduction_rounds.hpp"

#include <algorithm>
#include <numeric>

namespace outrigger::group {
namespace {

// Bytes of a vector up to which each node combines all of it: one message to each other node, and not two.
std::uint64_t most_short(std::uint32_t nodes) {
  return nodes == 2 ? std::uint64_t{256} << 10 : std::uint64_t{32} << 10;
}

// With more nodes, shares would be short.
std::uint64_t most_of_a_round(std::uint32_t nodes) {
  return kPieceBytes * std::clamp<std::uint64_t>(nodes / 2, 1, 8);
}

std::vector<Share> equal_shares(std::uint64_t count, std::uint32_t nodes) {
  std::vector<Share> shares;
  for (std::uint32_t node = 0; node < nodes; ++node) {
    const std::uint64_t first = count * node / nodes;
    shares.push_back({first, count * (node + 1) / nodes - first});
  }
  return shares;
}

std::vector<std::uint32_t> all_ranks(std::uint32_t size) {
  std::vector<std::uint32_t> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0U);
  return ranks;
}

// Without shares and ranks.
std::vector<Round> cut(std::uint32_t block, std::uint64_t elements, std::uint64_t most) {
  std::vector<Round> rounds;
  for (std::uint64_t done = 0; done < elements; done += most) {
    rounds.push_back({.block = block, .first = done, .count = std::min(most, elements - done)});
  }
  return rounds;
}

void give_to(Round& round, const Layout& layout, std::uint32_t rank) {
  round.shares.resize(layout.nodes());
  round.shares[layout.node_of(rank)].count = round.count;
  round.into = {rank};
}

void give_to_all(Round& round, const Layout& layout, bool is_short) {
  round.spreads = !is_short;
  round.shares =
      is_short ? std::vector<Share>(layout.nodes(), Share{0, round.count}) : equal_shares(round.count, layout.nodes());
  round.into = all_ranks(layout.size());
}

}  // namespace

std::vector<Round> rounds_of(const Post& post, const Layout& layout, std::uint64_t element_bytes,
                             std::uint64_t partial_bytes) {
  const std::uint64_t most = most_of_a_round(layout.nodes()) / partial_bytes;
  const std::uint32_t blocks = post.call == PostedCall::reduce_scatter ? layout.size() : 1;
  const bool is_short = post.from[0].bytes <= most_short(layout.nodes());
  std::vector<Round> rounds;
  for (std::uint32_t block = 0; block < blocks; ++block) {
    for (Round& round : cut(block, post.from[block].bytes / element_bytes, most)) {
      if (post.call == PostedCall::all_reduce) {
        give_to_all(round, layout, is_short);
      } else {
        give_to(round, layout, post.call == PostedCall::reduce ? post.root : block);
      }
      rounds.push_back(std::move(round));
    }
  }
  return rounds;
}

}  // namespace outrigger::group
