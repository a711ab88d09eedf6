// Why a group can no longer be used: one word in the shared memory of each node, set once by the member that notices
// it first, or receives it first from another node. So all members name the same cause, also those that wait for a
// member that has failed.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace outrigger::group {

enum class FailureKind : std::uint8_t { none, died, late, aborted, different, no_memory, left, service_died };

struct Failure {
  FailureKind kind = FailureKind::none;
  // The member that died, is late, has aborted, has no memory or has left; or the first one of the node whose service
  // process has ended.
  std::uint32_t about = 0;
  std::uint32_t noticed = 0;  // the member that noticed it
  std::uint32_t seconds = 0;  // that a late member was waited for

  [[nodiscard]] bool is_set() const { return kind != FailureKind::none; }
  [[nodiscard]] std::uint64_t word() const {
    return static_cast<std::uint64_t>(kind) | std::uint64_t{about} << 8 | std::uint64_t{noticed} << 16 |
           std::uint64_t{seconds} << 32;
  }
  [[nodiscard]] static Failure of(std::uint64_t word) {
    const auto kind = static_cast<std::uint8_t>(word);
    return {.kind = kind <= static_cast<std::uint8_t>(FailureKind::service_died) ? static_cast<FailureKind>(kind)
                                                                                 : FailureKind::aborted,
            .about = static_cast<std::uint8_t>(word >> 8),
            .noticed = static_cast<std::uint8_t>(word >> 16),
            .seconds = static_cast<std::uint32_t>(word >> 32)};
  }
};

// An enum outrigger_group_result, and a sentence. `me`: the calling member.
[[nodiscard]] int result_of(const Failure& failure);
// `pid` of the member, or service process, that it is about. `is_far`: another node's member noticed it.
[[nodiscard]] std::string sentence_of(const Failure& failure, std::uint32_t me, std::int32_t pid, bool is_far);

}  // namespace outrigger::group
