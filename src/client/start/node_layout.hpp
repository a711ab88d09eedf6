// Assigns ranks to nodes, with the same result on every rank, from the places that all ranks report. Ranks of one node
// are processes of one kernel under one host name, as for the MPI itself, unless the user splits a machine into several
// nodes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"

namespace outrigger::client {

// The cpus that a rank may run on, as ranges in ascending order. If there are too many ranges, the smallest gaps are
// filled, so the set is slightly too large.
struct CpuRanges {
  struct Range {
    std::uint16_t first = 1;
    std::uint16_t last = 0;  // before `first`: no range
  };
  std::array<Range, 8> ranges{};

  // The cpus of this thread; {0} if the system does not tell.
  [[nodiscard]] static CpuRanges mine();
  // `mask`: cpu i is bit i % 64 of word i / 64, at most 65536 of them.
  [[nodiscard]] static CpuRanges of(std::span<const std::uint64_t> mask);
  [[nodiscard]] std::uint32_t count() const;
  [[nodiscard]] std::uint32_t common_with(const CpuRanges& other) const;
};

// Plain data, sent to all ranks.
struct RankOrigin {
  std::uint64_t machine = 0;  // 0: unknown
  std::uint64_t host = 0;     // hash of its name
  CpuRanges cpus;

  [[nodiscard]] static RankOrigin mine();
};

struct NodeLayout {
  std::vector<std::uint32_t> node_of_rank;  // by world rank; nodes are numbered in the order of their first ranks
  std::vector<std::uint32_t> leaders;       // the first rank of each node
  std::uint32_t local_rank = 0;             // from here on this rank's
  std::uint32_t local_size = 0;
  std::uint32_t keepers_here = 1;  // nodes that its host pretends to be
  std::uint32_t number_here = 0;   // number of this one among them

  // `me` is a world rank; a host is split into `pretend_nodes` nodes, but no more than it has ranks.
  NodeLayout(std::span<const RankOrigin> ranks, std::uint32_t me, std::uint32_t pretend_nodes);
  [[nodiscard]] std::uint32_t nodes() const { return static_cast<std::uint32_t>(leaders.size()); }
};

// Number of processes on a rank's cores, if each spreads evenly over its allowed cores.
struct CoreLoad {
  double cores = 0;
  double ranks = 0;     // of its machine, including itself
  double services = 0;  // of its node, for `services` without cores of their own
};

[[nodiscard]] CoreLoad load_of_cores(std::span<const RankOrigin> ranks, const NodeLayout& layout, std::uint32_t me,
                                     std::uint32_t services);

}  // namespace outrigger::client
