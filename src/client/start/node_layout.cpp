#include "client/start/node_layout.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <string_view>
#include <tuple>

#include "protocol/wire/rank_address.hpp"

namespace outrigger::client {
namespace {

constexpr std::size_t kKernelCpus = 16384;  // the kernel rejects sets smaller than its own
constexpr std::size_t kMostCpus = 65536;

using Range = CpuRanges::Range;

std::vector<Range> ranges_of(std::span<const std::uint64_t> mask) {
  std::vector<Range> ranges;
  for (std::size_t cpu = 0; cpu < std::min(mask.size() * 64, kMostCpus); ++cpu) {
    if ((mask[cpu / 64] >> (cpu % 64) & 1U) == 0) continue;
    const auto number = static_cast<std::uint16_t>(cpu);
    if (ranges.empty() || ranges.back().last + 1 != number) ranges.push_back({number, number});
    ranges.back().last = number;
  }
  return ranges;
}

void fill_smallest_gap(std::vector<Range>& ranges) {
  const auto smaller = [&](std::size_t one, std::size_t other) {
    return ranges[one + 1].first - ranges[one].last < ranges[other + 1].first - ranges[other].last;
  };
  std::size_t smallest = 0;
  for (std::size_t i = 1; i + 1 < ranges.size(); ++i) {
    if (smaller(i, smallest)) smallest = i;
  }
  ranges[smallest].last = ranges[smallest + 1].last;
  ranges.erase(ranges.begin() + static_cast<std::ptrdiff_t>(smallest) + 1);
}

std::uint64_t digest_of(std::string_view text) {
  std::uint64_t digest = 0xCBF29CE484222325ULL;
  for (const char letter : text) digest = (digest ^ static_cast<unsigned char>(letter)) * 0x100000001B3ULL;
  return digest;
}

// Sorted by host; the ranks of one host in ascending order.
std::vector<std::uint32_t> by_host(std::span<const RankOrigin> ranks) {
  std::vector<std::uint32_t> sorted(ranks.size());
  for (std::uint32_t rank = 0; rank < sorted.size(); ++rank) sorted[rank] = rank;
  std::ranges::sort(sorted, {},
                    [&](std::uint32_t rank) { return std::tuple(ranks[rank].machine, ranks[rank].host, rank); });
  return sorted;
}

bool same_host(const RankOrigin& one, const RankOrigin& other) {
  return one.machine == other.machine && one.host == other.host;
}

}  // namespace

CpuRanges CpuRanges::mine() {
  std::array<std::uint64_t, kKernelCpus / 64> mask{};
  if (::sched_getaffinity(0, sizeof(mask), reinterpret_cast<cpu_set_t*>(mask.data())) < 0) mask[0] = 1;
  return of(mask);
}

CpuRanges CpuRanges::of(std::span<const std::uint64_t> mask) {
  CpuRanges result;
  std::vector<Range> ranges = ranges_of(mask);
  while (ranges.size() > result.ranges.size()) fill_smallest_gap(ranges);
  std::ranges::copy(ranges, result.ranges.begin());
  return result;
}

std::uint32_t CpuRanges::count() const {
  return common_with(*this);
}

std::uint32_t CpuRanges::common_with(const CpuRanges& other) const {
  int common = 0;
  for (const Range& one : ranges) {
    for (const Range& two : other.ranges) {
      const int first = std::max(one.first, two.first);
      const int last = std::min(one.last, two.last);
      common += std::max(0, last - first + 1);
    }
  }
  return static_cast<std::uint32_t>(common);
}

RankOrigin RankOrigin::mine() {
  std::array<char, 256> name{};
  (void)::gethostname(name.data(), name.size() - 1);
  return RankOrigin{this_machine(), digest_of(name.data()), CpuRanges::mine()};
}

NodeLayout::NodeLayout(std::span<const RankOrigin> ranks, std::uint32_t me, std::uint32_t pretend_nodes)
    : node_of_rank(ranks.size()) {
  const std::vector<std::uint32_t> sorted = by_host(ranks);
  std::vector<std::uint32_t> leader_of_rank(ranks.size());
  for (auto host = sorted.begin(); host != sorted.end();) {
    const auto end =
        std::find_if(host, sorted.end(), [&](std::uint32_t rank) { return !same_host(ranks[rank], ranks[*host]); });
    const auto size = static_cast<std::uint32_t>(end - host);
    const std::uint32_t parts = std::clamp(pretend_nodes, 1U, size);
    const auto part_of = [&](std::uint32_t place) {
      return static_cast<std::uint32_t>(std::uint64_t{place} * parts / size);
    };
    std::uint32_t first = 0;  // index of the part's first rank
    for (std::uint32_t place = 0; place < size; ++place) {
      if (part_of(place) != part_of(first)) first = place;
      const std::uint32_t rank = host[place];
      leader_of_rank[rank] = host[first];
      if (rank == me) {
        local_rank = place - first;
        keepers_here = parts;
        number_here = part_of(place);
      }
    }
    host = end;
  }
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    if (leader_of_rank[rank] == rank) {
      node_of_rank[rank] = nodes();
      leaders.push_back(rank);
    } else {
      node_of_rank[rank] = node_of_rank[leader_of_rank[rank]];  // a lower rank
    }
    if (leader_of_rank[rank] == leader_of_rank[me]) ++local_size;
  }
}

CoreLoad load_of_cores(std::span<const RankOrigin> ranks, const NodeLayout& layout, std::uint32_t me,
                       std::uint32_t services) {
  const RankOrigin& mine = ranks[me];
  CoreLoad load;
  load.cores = mine.cpus.count();
  std::array<std::uint64_t, kMostCpus / 64> of_node{};
  const auto is_near = [&](std::uint32_t rank) {
    return layout.node_of_rank[rank] == layout.node_of_rank[me] ||
           (mine.machine != 0 && ranks[rank].machine == mine.machine);
  };
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    if (!is_near(rank)) continue;
    const CpuRanges& cpus = ranks[rank].cpus;
    load.ranks += static_cast<double>(mine.cpus.common_with(cpus)) / std::max(1U, cpus.count());
    if (layout.node_of_rank[rank] != layout.node_of_rank[me]) continue;
    for (const Range& range : cpus.ranges) {
      for (std::uint32_t cpu = range.first; cpu <= range.last; ++cpu)
        of_node[cpu / 64] |= std::uint64_t{1} << (cpu % 64);
    }
  }
  std::uint32_t node_cpus = 0;
  for (const std::uint64_t word : of_node) node_cpus += static_cast<std::uint32_t>(std::popcount(word));
  load.services = services * load.cores / std::max(1U, node_cpus);
  return load;
}

}  // namespace outrigger::client
