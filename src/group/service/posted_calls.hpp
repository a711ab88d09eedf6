// Reads posts of a group on several nodes: do calls fit together, and which blocks go from one node to another? Ranks
// are those of the group.
#pragma once

#include <cstdint>
#include <vector>

#include "group/layout.hpp"
#include "group/service/service_area.hpp"

namespace outrigger::group {

// The same for equal arguments, as far as all ranks know them; 0: they do not fit together.
[[nodiscard]] std::uint64_t arguments_of(const Post& post, std::uint32_t rank, std::uint32_t size,
                                         std::uint64_t element_bytes);

struct BlockPlace {
  std::uint32_t rank = 0;
  std::uint32_t block = 0;  // in Post::from or Post::into
};
struct Shipment {
  BlockPlace from;
  std::vector<BlockPlace> into;
};
// Both nodes have them in the same order. Not of a reduction.
[[nodiscard]] std::vector<Shipment> shipments(const Post& post, const Layout& layout, std::uint32_t from_node,
                                              std::uint32_t into_node);

}  // namespace outrigger::group
