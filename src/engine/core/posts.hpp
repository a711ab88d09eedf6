// Posts of local ranks, including posts that are replayed after a restart. Nothing is answered at once: the engine's
// next run reports rejected and restored operations.
#pragma once

#include <vector>

#include "engine/core/context.hpp"
#include "engine/core/group_table.hpp"
#include "engine/posted_operation.hpp"

namespace outrigger::engine {

class Posts {
 public:
  Posts(Context& context, GroupTable& groups) : context_(context), groups_(groups) {}

  void post(PostedOperation&& operation);
  void restore_progress(WorldRank rank, GroupId group, std::uint64_t next_sequence);

  // False if there are none.
  bool complete_rejected();
  bool tell_of_restored();
  [[nodiscard]] bool idle() const { return rejected_.empty() && restored_.empty(); }

 private:
  struct Rejected {
    WorldRank rank;
    SlotIndex slot;
  };
  struct Restored {
    WorldRank rank;
    GroupId group;
  };

  // nullptr if the post cannot be accepted.
  [[nodiscard]] AlgorithmFunction check_shape(const PostedOperation& operation) const;
  [[nodiscard]] bool in_order(const Group* known, const PostedOperation& operation) const;
  void reject(const PostedOperation& operation);

  Context& context_;
  GroupTable& groups_;
  std::vector<Rejected> rejected_;
  std::vector<Restored> restored_;
};

}  // namespace outrigger::engine
