// How the vector of a reduction is cut among the ranks of a group. Each slice has an owner, who makes that part of the
// result of all contributions; the others have it from there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "protocol/memory.hpp"

namespace outrigger::engine {

// By owner, in group ranks: where in the vector its slice is. As equal as whole elements allow, of `least_bytes` or
// more but for the last; where these are fewer than ranks, owners are spread over the group and the others' slices are
// empty. The same at all ranks.
[[nodiscard]] std::vector<PairExtent> cut_into_slices(std::uint64_t bytes, std::uint64_t element_bytes,
                                                      std::size_t members, std::uint64_t least_bytes);

}  // namespace outrigger::engine
