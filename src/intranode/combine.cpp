#include "intranode/combine.hpp"

namespace outrigger::intranode {

void OrderCombine::apply(std::span<const std::byte* const> contributions, std::byte* into, std::uint64_t first,
                         std::size_t elements) const {
  if (elements == 0) return;
  const auto members = contributions.first(order_.members());
  if (evaluate(order_, reduction_, members, into, first, elements) == Bits::ask_native) asks_native_ = true;
}

}  // namespace outrigger::intranode
