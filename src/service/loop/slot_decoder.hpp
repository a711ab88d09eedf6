// Makes an operation that the engine can trust from a slot that a rank has written.
//
// Every input may be hostile. The slot's copy is checked field by field. Arrays in shared memory are copied once, and
// only the copies are read. Every range is checked against the regions of the posting rank.
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

// The result of a trial in an earlier run.
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
