// Short slices of a result that are sent to another service process with the answer to its request. Their block names
// are unlike any rank's block: the reader stands in the destination's place.
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

  // --- Sender. --- Sends the source's whole slice, which the local rank holds, before the answer; this saves the
  // reader a round trip. It may be read until it is withdrawn.
  void send(SpId reader, GroupRank source, const LocalRank& holder);
  // The reader has the slice, or is gone.
  void withdraw(GroupRank source, SpId reader);
  // The local rank leaves, and its memory with it.
  void holder_goes(GroupRank rank);

  // --- Receiver. --- The slice will not be taken any more.
  void forget(GroupRank source, SpId holder) const;

 private:
  using Key = std::pair<GroupRank, SpId>;  // source, reader
  void withdraw(const Key& sent) const;

  const Operation& operation_;
  std::map<Key, GroupRank> sent_;  // to the local rank that holds the slice
};

}  // namespace outrigger::engine
