// Counters of service processes on a DPU, for their host's keeper.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "protocol/shared/link_counts.hpp"

namespace outrigger {

// Traffic of all service processes of the DPU with one other node.
struct DpuLinkFigures {
  std::uint32_t node = 0;  // link_place()
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_bytes = 0;
  static constexpr void fields(auto& io, auto& link) { io.value(link.node, link.sent_bytes, link.received_bytes); }
};

struct DpuFigures {
  std::uint64_t number = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  std::vector<DpuLinkFigures> links;  // in ascending node order; only links with traffic
  static constexpr void fields(auto& io, auto& figures) {
    io.value(figures.number, figures.read_bytes, figures.written_bytes);
    io.list(figures.links, kLinkPlaces);
    const auto not_rising = [](const DpuLinkFigures& one, const DpuLinkFigures& next) { return one.node >= next.node; };
    io.require(std::ranges::adjacent_find(figures.links, not_rising) == figures.links.end());
    io.require(figures.links.empty() || figures.links.back().node < kLinkPlaces);
  }
};

}  // namespace outrigger
