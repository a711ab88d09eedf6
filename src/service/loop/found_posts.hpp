// Finds in a rank's segment, for a replacement: posts that are not done, taken or not, and the rank's progress on each
// group.
//
// The rank continues meanwhile, so the order of reading matters: the ring's tail; slots; records; groups. Posts behind
// that tail are not listed: they are taken as usual. An operation with a lower sequence than a found one, or one that
// the rank has given back, is done.
//
// Nothing here is trusted: bodies are copies, to be decoded as usual.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "fabric/host/rank_memory.hpp"
#include "protocol/ids.hpp"
#include "protocol/shared/segment.hpp"
#include "steer/plan/dispatch_plan.hpp"

namespace outrigger::service {

struct FoundPost {
  SlotRequestBody body;
  std::optional<LocalRef> record = {};  // of the overflow record; nullopt: it is in a slot
  SlotIndex slot;
  std::uint32_t position = 0;  // of the slot in the ring
  bool told = false;           // the rank knows that it is filled
};

struct FoundGroup {
  GroupId id;
  GroupRank me;
  std::uint32_t size = 0;
  LocalRef members;
  PlanNumber plan;
  bool freed = false;
};

struct FoundPosts {
  std::uint32_t ring_tail = 0;               // everything before it is found, or done
  std::uint32_t overflow_taken = 0;          // the same for records
  std::optional<LocalRef> last_record = {};  // the last one of these
  std::vector<FoundPost> operations;         // by group and sequence
  std::vector<FoundPost> requests;           // other posts, in the order of the ring
  std::vector<FoundGroup> groups;
  std::map<GroupId, std::uint64_t> next_sequence;  // by group: all below it is done unless found
};

// Error: the segment is inconsistent.
[[nodiscard]] Result<FoundPosts> find_posts(const fabric::RankMemory& memory);

// The newest dispatch plan among these ranks, by group.
[[nodiscard]] std::map<GroupId, steer::PlanChange> newest_plans(std::span<const SegmentView> segments);

}  // namespace outrigger::service
