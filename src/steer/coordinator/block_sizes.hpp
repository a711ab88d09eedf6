// Which collectives of which communicators have had small blocks only, as far as this process's ranks show: v-forms,
// whose sizes no rank knows of the others.
//
// Thread rule: one thread.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

#include "protocol/ids.hpp"
#include "steer/plan/dispatch_plan.hpp"

namespace outrigger::steer {

class BlockSizes {
 public:
  // A rank has posted. True: the result of small() has changed.
  [[nodiscard]] bool note(const OperationId& operation, Collective collective, bool small);
  // A rank has called it natively, with blocks that are not small. True: as above.
  [[nodiscard]] bool note_larger(const GroupId& group, Collective collective);
  void forget(const GroupId& group) { groups_.erase(group); }

  [[nodiscard]] CollectiveBits small(const GroupId& group) const;

 private:
  // Operations in a row with small blocks; more each time that larger ones came after them.
  static constexpr std::uint32_t kEnough = 8;
  static constexpr std::uint32_t kMost = 1U << 16;

  struct Sizes {
    std::uint64_t last_sequence = ~std::uint64_t{0};
    std::uint32_t in_a_row = 0;
    std::uint32_t enough = kEnough;
    bool small = false;
  };
  using Group = std::array<Sizes, kCollectives.size()>;

  std::unordered_map<GroupId, Group> groups_;
};

}  // namespace outrigger::steer
