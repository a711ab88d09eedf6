// What a service process finds in the segment of a rank whose service process has died: what is posted and not done,
// whether the dead one had taken it or not, and how far the rank is on each of its groups.
//
// The rank goes on meanwhile. Read in this order: the ring's tail; slots; records; groups. Of what is posted behind
// that tail nothing is said here: it is taken as ever. An operation that is not found and has a lower sequence than one
// that is found, or that the rank has given back, is done.
//
// Nothing here is believed: bodies are copies, to be decoded as ever.
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
  std::optional<LocalRef> record = {};  // where an overflow record is; nothing: a slot
  SlotIndex slot;
  std::uint32_t position = 0;  // in the ring, of a slot
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
  std::uint32_t ring_tail = 0;               // everything before it is here, or done
  std::uint32_t overflow_taken = 0;          // the same of records
  std::optional<LocalRef> last_record = {};  // the last one of these
  std::vector<FoundPost> operations;         // by group and sequence
  std::vector<FoundPost> requests;           // what is no operation, in the order of the ring
  std::vector<FoundGroup> groups;
  std::map<GroupId, std::uint64_t> next_sequence;  // of every group: below it all is done but what is found
};

// Error: not everything is to be found.
[[nodiscard]] Result<FoundPosts> find_posts(const fabric::RankMemory& memory);

// Of each group that has a dispatch plan the newest plan that any of these ranks goes by.
[[nodiscard]] std::map<GroupId, steer::PlanChange> newest_plans(std::span<const SegmentView> segments);

}  // namespace outrigger::service
