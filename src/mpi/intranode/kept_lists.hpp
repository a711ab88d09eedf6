// Keeps a call with lists of counts and places: copies of these, and the blocks that they come to. A call
// with the same words is the same call if its lists have the same contents.
//
// Thread rule: the team's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "intranode/member_blocks.hpp"
#include "mpi/intranode/team_arguments.hpp"
#include "mpi/types/packing.hpp"

namespace outrigger::mpi {

class KeptLists {
 public:
  // The lists of a valid call that mean something on this rank.
  void keep(const TeamArguments& call, const TeamPlace& team);
  // The program has not changed them.
  [[nodiscard]] bool are_unchanged() const {
    for (std::size_t i = 0; i < count_; ++i) {
      const List& list = lists_[i];
      if (std::memcmp(list.source, list.copy.data(), list.copy.size()) != 0) return false;
    }
    return true;
  }

 private:
  struct List {
    const void* source = nullptr;
    std::vector<std::byte> copy;
  };
  void keep(Word source, std::size_t bytes);

  std::array<List, 4> lists_;
  std::size_t count_ = 0;
};

// The blocks of one side in any buffer, where they need no packing.
class KeptBlocks {
 public:
  void keep(const intranode::Blocks& blocks, const void* buffer, std::uint32_t members);
  [[nodiscard]] intranode::Blocks at(std::byte* buffer) const {
    return intranode::Blocks::irregular(address_of(buffer, first_), bytes_.data(), offsets_.data());
  }

 private:
  std::int64_t first_ = 0;
  std::vector<std::uint64_t> bytes_;
  std::vector<std::uint64_t> offsets_;
};

}  // namespace outrigger::mpi
