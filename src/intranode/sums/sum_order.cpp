#include "intranode/sums/sum_order.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>

namespace outrigger::intranode {

std::optional<SumOrder> SumOrder::of(std::vector<Part> parts) {
  if (parts.empty() || parts.size() > kMostParts || parts.back().end != kRest) return std::nullopt;
  std::uint64_t start = 0;
  for (const Part& part : parts) {
    if (part.end <= start || part.tree.members() != parts.front().tree.members()) return std::nullopt;
    start = part.end;
  }
  SumOrder order;
  order.parts_ = std::move(parts);
  return order;
}

std::optional<SumOrder> SumOrder::parse(std::string_view text) {
  std::vector<Part> parts;
  for (bool last = false; !last;) {
    const std::size_t length = text.find(';');
    last = length == std::string_view::npos;
    std::string_view part = text.substr(0, length);
    std::uint64_t end = kRest;
    if (!last) {
      const auto [rest, error] = std::from_chars(part.data(), part.data() + part.size(), end);
      part.remove_prefix(static_cast<std::size_t>(rest - part.data()));
      if (error != std::errc() || !part.starts_with(':') || end == kRest || parts.size() == kMostParts)
        return std::nullopt;
      part.remove_prefix(1);
      text.remove_prefix(length + 1);
    }
    std::optional<SumTree> tree = SumTree::parse(part);
    if (!tree) return std::nullopt;
    parts.push_back({end, *std::move(tree)});
  }
  return of(std::move(parts));
}

std::string SumOrder::text() const {
  std::string text;
  for (const Part& part : parts_) {
    if (!text.empty()) text += ';';
    if (part.end != kRest) text.append(std::to_string(part.end)).append(":");
    text += part.tree.text();
  }
  return text;
}

Bits evaluate_parts(const SumOrder& order, const Reduction& reduction, std::span<const std::byte* const> contributions,
                    std::byte* out, std::uint64_t first, std::size_t elements) {
  std::array<const std::byte*, SumTree::kMostMembers> from;
  Bits bits = Bits::exact;
  const std::uint64_t end = first + elements;
  std::uint64_t at = first;
  for (const SumOrder::Part& part : order.parts()) {
    if (part.end <= at) continue;
    const std::uint64_t stop = std::min(part.end, end);
    const std::size_t offset = (at - first) * reduction.element_bytes();
    for (std::size_t i = 0; i < contributions.size(); ++i) from.at(i) = contributions[i] + offset;
    if (evaluate(part.tree, reduction, std::span(from).first(contributions.size()), out + offset, stop - at) ==
        Bits::ask_native)
      bits = Bits::ask_native;
    at = stop;
    if (at == end) break;
  }
  return bits;
}

}  // namespace outrigger::intranode
