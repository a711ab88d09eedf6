// Short slices of a result that are sent to another service process with the answer that they are here, before they are
// asked for. They go by names that no rank's block has: in the place of the block's destination stands the reader.
#pragma once

#include <map>
#include <utility>

#include "engine/core/group.hpp"
#include "engine/core/local_rank.hpp"
#include "protocol/ids.hpp"

namespace outrigger::engine {

class Operation;

class EagerReplicas {
 public:
  // `operation` outlives this.
  explicit EagerReplicas(const Operation& operation) : operation_(operation) {}
  EagerReplicas(const EagerReplicas&) = delete;
  EagerReplicas& operator=(const EagerReplicas&) = delete;
  ~EagerReplicas();

  [[nodiscard]] static GroupRank name_of_reader(const Membership& membership, SpId reader) {
    return group_rank(membership.size() + reader.value());
  }

  // --- Where it is. ---
  // The source's whole slice, which the local rank holds, where that saves the reader the way there and back. The
  // answer follows. Until it is withdrawn it may be read.
  void send(SpId reader, GroupRank source, const LocalRank& holder);
  // The reader has it, or has gone.
  void withdraw(GroupRank source, SpId reader);
  // The local rank goes, and its memory with it.
  void holder_goes(GroupRank rank);

  // --- Where it comes to. ---
  // It will not be taken (any more).
  void forget(GroupRank source, SpId holder) const;

 private:
  using Key = std::pair<GroupRank, SpId>;  // source, reader
  void withdraw(const Key& sent) const;

  const Operation& operation_;
  std::map<Key, GroupRank> sent_;  // and who holds it
};

}  // namespace outrigger::engine
