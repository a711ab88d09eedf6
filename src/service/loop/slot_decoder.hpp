// From what a rank has written into a slot to an operation the engine can trust.
//
// Everything here is hostile until checked: the slot's copy is checked field by field, arrays in shared memory are
// copied once and only the copies are looked at, and every range is checked against the regions of the posting rank.
#pragma once

#include <cstdint>
#include <variant>

#include "base/result.hpp"
#include "engine/engine.hpp"
#include "fabric/host/rank_memory.hpp"
#include "protocol/ids.hpp"
#include "protocol/shared/segment.hpp"
#include "service/loop/group_cache.hpp"
#include "steer/plan/decision.hpp"

namespace outrigger::service {

struct ForgetGroup {
  GroupId group;
};

struct LargerBlocks {
  GroupId group;
  Collective collective;
};

struct JoinPlan {
  GroupId group;
  Members members;
};

struct AskTrial {
  GroupId group;
  steer::TrialRequest request;
};

// What a trial of an earlier run has shown.
struct Recall {
  GroupId group;
  steer::CachedDecision decision;
};

struct TrialMeasured {
  GroupId group;
  std::uint16_t trial;
};

struct GiveUpTrial {
  GroupId group;
  std::uint16_t trial;
};

using DecodedSlot = std::variant<engine::PostedOperation, ForgetGroup, LargerBlocks, JoinPlan, AskTrial, Recall,
                                 TrialMeasured, GiveUpTrial>;

// `body` is this process's own copy. Changes nothing but `groups`. The error says which field is wrong.
[[nodiscard]] Result<DecodedSlot> decode_slot(const SlotRequestBody& body, WorldRank rank, SlotIndex slot,
                                              const fabric::RankMemory& memory, std::uint32_t world_size,
                                              GroupCache& groups);

}  // namespace outrigger::service
