#include "engine/core/slices.hpp"

#include <algorithm>

namespace outrigger::engine {
namespace {

constexpr std::uint64_t divide_up(std::uint64_t value, std::uint64_t by) {
  return value / by + (value % by != 0 ? 1 : 0);
}

}  // namespace

std::vector<PairExtent> cut_into_slices(std::uint64_t bytes, std::uint64_t element_bytes, std::size_t members,
                                        std::uint64_t least_bytes) {
  std::vector<PairExtent> slices(members);
  const std::uint64_t elements = bytes / element_bytes;
  if (elements == 0) return slices;
  const std::uint64_t least = std::max<std::uint64_t>(1, divide_up(least_bytes, element_bytes));
  const std::uint64_t each = std::max(divide_up(elements, members), least);
  const std::uint64_t count = divide_up(elements, each);
  for (std::uint64_t slice = 0; slice < count; ++slice) {
    PairExtent& extent = slices[slice * members / count];
    extent.offset_bytes = static_cast<std::int64_t>(slice * each * element_bytes);
    extent.bytes = std::min(each, elements - slice * each) * element_bytes;
  }
  return slices;
}

}  // namespace outrigger::engine
