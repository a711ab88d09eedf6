// Which ranks make a node: the same on every rank, from what each says of where it is. Ranks of one node are processes
// of one kernel under one host name, as with the MPI's own idea of it; and not, where the user has a machine pretend to
// be several nodes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"

namespace outrigger::client {

// The cpus that a rank may run on, as ranges in ascending order. A set of more ranges than there is room for has the
// smallest gaps filled: it is a little too large then.
struct CpuRanges {
  struct Range {
    std::uint16_t first = 1;
    std::uint16_t last = 0;  // before `first`: no range
  };
  std::array<Range, 8> ranges{};

  // Of this thread; {0} where the system does not tell.
  [[nodiscard]] static CpuRanges mine();
  // `mask`: cpu i is bit i % 64 of word i / 64, at most 65536 of them.
  [[nodiscard]] static CpuRanges of(std::span<const std::uint64_t> mask);
  [[nodiscard]] std::uint32_t count() const;
  [[nodiscard]] std::uint32_t common_with(const CpuRanges& other) const;
};

// Plain data, told to all ranks.
struct RankOrigin {
  std::uint64_t machine = 0;  // 0: not known
  std::uint64_t host = 0;     // of its name
  CpuRanges cpus;

  [[nodiscard]] static RankOrigin mine();
};

struct NodeLayout {
  std::vector<std::uint32_t> node_of_rank;  // by world rank; nodes count in the order of their first ranks
  std::vector<std::uint32_t> leaders;       // the first rank of each node
  std::uint32_t local_rank = 0;             // from here on this rank's
  std::uint32_t local_size = 0;
  std::uint32_t keepers_here = 1;  // nodes that its host pretends to be
  std::uint32_t number_here = 0;   // which of them this is

  // `me` is a world rank; a host pretends to be `pretend_nodes` nodes, but no more than it has ranks.
  NodeLayout(std::span<const RankOrigin> ranks, std::uint32_t me, std::uint32_t pretend_nodes);
  [[nodiscard]] std::uint32_t nodes() const { return static_cast<std::uint32_t>(leaders.size()); }
};

// How many processes would run on a rank's cores if each spread evenly over those it may use.
struct CoreLoad {
  double cores = 0;
  double ranks = 0;     // of its machine, itself too
  double services = 0;  // of its node, of `services` without cores of their own
};

[[nodiscard]] CoreLoad load_of_cores(std::span<const RankOrigin> ranks, const NodeLayout& layout, std::uint32_t me,
                                     std::uint32_t services);

}  // namespace outrigger::client
