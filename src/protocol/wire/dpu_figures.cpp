#include "protocol/wire/dpu_figures.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace outrigger {

DpuFiguresHeader header_of(const DpuFigures& figures) {
  assert(figures.links.size() <= kLinkPlaces);
  const auto links = static_cast<std::uint32_t>(figures.links.size());
  return {figures.number, figures.read_bytes, figures.written_bytes, links, 0};
}

std::span<const std::byte> bytes_of(const DpuFigures& figures) {
  return std::as_bytes(std::span(figures.links));
}

Result<DpuFigures> decode_dpu_figures(std::span<const std::byte> header, std::span<const std::byte> links) {
  DpuFiguresHeader said;
  if (header.size() != sizeof said) return Error{"counters with a header of the wrong size"};
  std::memcpy(&said, header.data(), sizeof said);
  if (said.reserved != 0 || said.links > kLinkPlaces || links.size() != said.links * sizeof(DpuLinkFigures)) {
    return Error{"the number of counters differs from their header"};
  }
  DpuFigures decoded{said.number, said.read_bytes, said.written_bytes, std::vector<DpuLinkFigures>(said.links)};
  if (!links.empty()) std::memcpy(decoded.links.data(), links.data(), links.size());
  const auto is_node = [](const DpuLinkFigures& link) { return link.node < kLinkPlaces && link.reserved == 0; };
  const auto not_rising = [](const DpuLinkFigures& one, const DpuLinkFigures& next) { return one.node >= next.node; };
  if (!std::ranges::all_of(decoded.links, is_node) ||
      std::ranges::adjacent_find(decoded.links, not_rising) != decoded.links.end()) {
    return Error{"counters with an invalid or repeated node"};
  }
  return decoded;
}

}  // namespace outrigger
