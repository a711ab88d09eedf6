#include "group/failure.hpp"

#include <outrigger/group.h>

namespace outrigger::group {

int result_of(const Failure& failure) {
  switch (failure.kind) {
    case FailureKind::none: return OUTRIGGER_GROUP_OK;
    case FailureKind::died:
    case FailureKind::left:
    case FailureKind::service_died: return OUTRIGGER_GROUP_DEAD_RANK;
    case FailureKind::late: return OUTRIGGER_GROUP_TIMEOUT;
    case FailureKind::aborted: return OUTRIGGER_GROUP_ABORTED;
    case FailureKind::different: return OUTRIGGER_GROUP_DIFFERENT;
    case FailureKind::no_memory: return OUTRIGGER_GROUP_NO_MEMORY;
  }
  return OUTRIGGER_GROUP_ABORTED;
}

std::string sentence_of(const Failure& failure, std::uint32_t me, std::int32_t pid, bool is_far) {
  const std::string about = "rank " + std::to_string(failure.about);
  const std::string noticed = failure.noticed == me ? "" : ", as rank " + std::to_string(failure.noticed) + " noticed";
  switch (failure.kind) {
    case FailureKind::none: return "";
    case FailureKind::died:
      return about + " (process " + std::to_string(pid) + ") has ended" +
             (is_far ? ", has destroyed its group or cannot be reached," : "") + " while others wait for it" + noticed;
    case FailureKind::late:
      return about + " (process " + std::to_string(pid) + ") has not come within " + std::to_string(failure.seconds) +
             " s, or waits for another rank itself" + noticed;
    case FailureKind::aborted: return about + " has aborted the group";
    case FailureKind::different:
      return "the calls of rank " + std::to_string(failure.noticed) + " and rank " + std::to_string(failure.about) +
             " differ";
    case FailureKind::no_memory: return about + " has no memory or no thread for a call";
    case FailureKind::left:
      return about + " (process " + std::to_string(pid) + ") has destroyed its group while others wait for it" +
             noticed;
    case FailureKind::service_died:
      return "the service process of " + about + "'s node (process " + std::to_string(pid) +
             ") has ended while ranks wait for it" + noticed;
  }
  return "";
}

}  // namespace outrigger::group
