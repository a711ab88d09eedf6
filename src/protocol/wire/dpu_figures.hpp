// Counters of service processes on a DPU, for their host's keeper: a header and, separately, the links. Fixed width,
// little-endian, every field checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "base/result.hpp"
#include "protocol/shared/link_counts.hpp"

namespace outrigger {

// Traffic of all service processes of the DPU with one other node.
struct DpuLinkFigures {
  std::uint32_t node = 0;  // link_place()
  std::uint32_t reserved = 0;
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_bytes = 0;
};

struct DpuFiguresHeader {
  std::uint64_t number = 0;         // of the request
  std::uint64_t read_bytes = 0;     // from the host's memory, over its bus
  std::uint64_t written_bytes = 0;  // to it
  std::uint32_t links = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(DpuLinkFigures) == 24 && std::has_unique_object_representations_v<DpuLinkFigures>);
static_assert(sizeof(DpuFiguresHeader) == 32 && std::has_unique_object_representations_v<DpuFiguresHeader>);

struct DpuFigures {
  std::uint64_t number = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  std::vector<DpuLinkFigures> links;  // in ascending node order; only links with traffic
};

// The two parts.
[[nodiscard]] DpuFiguresHeader header_of(const DpuFigures& figures);
[[nodiscard]] std::span<const std::byte> bytes_of(const DpuFigures& figures);
// Error: header and links do not match, or a node is invalid or named twice.
[[nodiscard]] Result<DpuFigures> decode_dpu_figures(std::span<const std::byte> header,
                                                    std::span<const std::byte> links);

}  // namespace outrigger
