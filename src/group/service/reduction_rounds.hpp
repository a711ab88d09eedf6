// How service processes of several nodes divide a reduction.
#pragma once

#include <cstdint>
#include <vector>

#include "group/layout.hpp"
#include "group/service/service_area.hpp"

namespace outrigger::group {

// Elements of a round, from its first one on.
struct Share {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

// A part of one block. All nodes have the same rounds.
struct Round {
  std::uint32_t block = 0;  // of the contributions
  std::uint64_t first = 0;  // element of the block
  std::uint64_t count = 0;
  std::vector<Share> shares{};        // of each node, which combines it
  bool spreads = false;               // each node's result goes to all others
  std::vector<std::uint32_t> into{};  // ranks that get the result
};

// `partial_bytes`: of an element on its way. `post`: of any rank.
[[nodiscard]] std::vector<Round> rounds_of(const Post& post, const Layout& layout, std::uint64_t element_bytes,
                                           std::uint64_t partial_bytes);

}  // namespace outrigger::group
