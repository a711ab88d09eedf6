// What local ranks post, after a restart also what they had posted before. Nothing is answered at once: what is
// rejected or restored is told by the engine's next run.
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

  // True: there were some.
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

  // Null: it cannot be accepted.
  [[nodiscard]] AlgorithmFunction check_shape(const PostedOperation& operation) const;
  [[nodiscard]] bool in_order(const Group* known, const PostedOperation& operation) const;
  void reject(const PostedOperation& operation);

  Context& context_;
  GroupTable& groups_;
  std::vector<Rejected> rejected_;
  std::vector<Restored> restored_;
};

}  // namespace outrigger::engine
