// Finds the rank of a group that is the last to post an operation. It need not give its core to the others.
//
// Knows the last operation of a few groups: a rank that is not found only yields once more.
//
// Thread rule: one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "protocol/ids.hpp"

namespace outrigger::service {

class AwaitedRanks {
 public:
  // A rank of this service process has posted. Returns the one rank of the group that has not, if this process serves
  // all others; nullopt if there are none or several.
  [[nodiscard]] std::optional<GroupRank> posted(const OperationId& operation, GroupRank rank, std::uint32_t group_size);

 private:
  static constexpr std::size_t kGroups = 64;

  struct Last {
    GroupId group;
    std::uint64_t sequence_and_one = 0;  // 0: no operation
    std::uint64_t posts = 0;
    std::uint64_t sum_of_ranks = 0;
  };

  std::array<Last, kGroups> groups_;  // by hash
};

}  // namespace outrigger::service
