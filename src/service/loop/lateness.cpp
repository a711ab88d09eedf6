#include "service/loop/lateness.hpp"

#include <algorithm>

namespace outrigger::service {

std::int64_t Lateness::first(Group& group, std::uint64_t sequence, std::int64_t now_ns) {
  First& place = group[sequence % kOperationsOfAGroup];
  if (place.sequence_and_one > sequence + 1) return now_ns;
  if (place.sequence_and_one < sequence + 1) place = First{sequence + 1, now_ns};
  return place.at_ns;
}

std::uint64_t Lateness::posted(const OperationId& id, std::int64_t now_ns) {
  auto group = groups_.find(id.group);
  if (group == groups_.end()) {
    if (groups_.size() >= kMostGroups) return 0;
    group = groups_.emplace(id.group, Group{}).first;
  }
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, now_ns - first(group->second, id.sequence, now_ns)));
}

void Lateness::announced(const OperationId& id, std::int64_t now_ns) {
  const auto group = groups_.find(id.group);
  if (group != groups_.end()) (void)first(group->second, id.sequence, now_ns);
}

}  // namespace outrigger::service
