#include "sim/timing/chosen_algorithm.hpp"

#include <optional>

#include "protocol/options/selection.hpp"

namespace outrigger::sim::timing {

Algorithm chosen_algorithm(const Places& places, const std::vector<WorldRank>& members, model::WireKind kind,
                           Collective collective, std::uint64_t bytes) {
  std::vector<RankPlace> of_ranks;
  of_ranks.reserve(places.ranks());
  for (std::uint32_t rank = 0; rank < places.ranks(); ++rank) {
    of_ranks.push_back(RankPlace{places.node_of(rank), places.service_of(rank)});
  }
  const std::optional<std::uint64_t> known = has_alike_blocks(collective) ? std::optional(bytes) : std::nullopt;
  const Wire wire = kind == model::WireKind::processor ? Wire::processor : Wire::memory;
  return SelectionTable().decide(false, collective, shape_of(of_ranks, members, wire), known).if_offloaded;
}

}  // namespace outrigger::sim::timing
