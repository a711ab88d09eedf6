// The blocks of some of the group's ranks, one for each member of a team.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "intranode/member_blocks.hpp"

namespace outrigger::group {

class LocalBlocks {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  // `ranks` by place; kNone: an empty block.
  LocalBlocks(const intranode::Blocks& all, std::span<const std::uint32_t> ranks)
      : base_(all.base), bytes_(ranks.size()), offsets_(ranks.size()) {
    for (std::size_t place = 0; place < ranks.size(); ++place) {
      if (ranks[place] == kNone) continue;
      const std::span<std::byte> block = all.of(ranks[place]);
      bytes_[place] = block.size();
      if (!block.empty()) offsets_[place] = static_cast<std::uint64_t>(block.data() - base_);
    }
  }
  // `each`: for operations that want to know it.
  [[nodiscard]] intranode::Blocks get(std::uint64_t each = 0) const {
    return {.base = base_, .each = each, .bytes = bytes_.data(), .offsets = offsets_.data()};
  }

 private:
  std::byte* base_;
  std::vector<std::uint64_t> bytes_;
  std::vector<std::uint64_t> offsets_;
};

}  // namespace outrigger::group
