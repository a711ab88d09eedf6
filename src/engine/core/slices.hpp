// How the vector of a reduction is cut among the ranks of a group. The owner of a slice reduces it from all
// contributions; other ranks read the result from the owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "protocol/memory.hpp"

namespace outrigger::engine {

// Each owner's slice in the vector, by group rank. Slices are equal up to whole elements, and all but the last have at
// least `least_bytes`. If there are fewer slices than ranks, owners are spread over the group and the other slices are
// empty. Same result at all ranks.
[[nodiscard]] std::vector<PairExtent> cut_into_slices(std::uint64_t bytes, std::uint64_t element_bytes,
                                                      std::size_t members, std::uint64_t least_bytes);

}  // namespace outrigger::engine
