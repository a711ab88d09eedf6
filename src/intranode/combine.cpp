#include "intranode/combine.hpp"

#include <array>
#include <cassert>

namespace outrigger::intranode {

void OrderCombine::apply(std::span<const std::byte* const> contributions, std::byte* into, std::uint64_t first,
                         std::size_t elements) const {
  if (elements == 0) return;
  const auto members = contributions.first(order_.members());
  if (evaluate(order_, reduction_, members, into, first, elements) == Bits::ask_native) asks_native_ = true;
}

void PrefixCombine::apply(std::span<const std::byte* const> contributions, std::byte* into, std::uint64_t first,
                          std::size_t elements) const {
  assert(elements * element_bytes() <= kMostBytes);
  alignas(64) std::array<std::byte, kMostBytes> whole;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  prefix_.apply(contributions, into, first, elements);
  all_.apply(contributions, whole.data(), first, elements);
}

}  // namespace outrigger::intranode
