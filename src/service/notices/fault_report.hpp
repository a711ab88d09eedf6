// Fault reports of a service process: about one rank, or about the whole job.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "protocol/wire/control.hpp"

namespace outrigger::service {

// Instead of a world rank: the service process itself cannot continue.
inline constexpr std::uint32_t kWholeJob = 0xFFFFFFFF;
// Instead of a world rank: another node is lost; the reason names it.
inline constexpr std::uint32_t kOtherNode = 0xFFFFFFFE;
// Instead of a world rank: a replacement of this service process may succeed, because it has no old state.
inline constexpr std::uint32_t kBeginAnew = 0xFFFFFFFD;

[[nodiscard]] inline FaultReportBody make_fault_report(std::uint32_t world_rank, std::string_view reason) {
  FaultReportBody body;
  body.world_rank = world_rank;
  std::copy_n(reason.begin(), std::min(reason.size(), kReasonBytes - 1), body.reason.begin());
  return body;
}

[[nodiscard]] inline RefusedBody make_refusal(std::string_view reason) {
  RefusedBody body;
  std::copy_n(reason.begin(), std::min(reason.size(), kReasonBytes - 1), body.reason.begin());
  return body;
}

}  // namespace outrigger::service
