#include "service/loop/found_posts.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>

namespace outrigger::service {
namespace {

constexpr int kMostTries = 1000;  // while the rank changes the data being read

bool is_state(std::uint32_t state, SlotState expected) {
  return state == static_cast<std::uint32_t>(expected);
}

bool is_before(std::uint32_t position, std::uint32_t tail) {
  return static_cast<std::int32_t>(tail - position) > 0;
}

// A consistent copy of a slot or record.
struct Seen {
  std::uint32_t state = 0;
  std::uint32_t position = 0;
  SlotRequestBody body;
};

Seen look_at(const OperationSlot& shared) {
  Seen seen;
  for (int tries = 0; tries < kMostTries; ++tries) {
    seen.state = shared.state.load(std::memory_order_acquire);
    std::memcpy(&seen.position, &shared.position, sizeof(seen.position));
    std::memcpy(&seen.body, &shared.body, sizeof(seen.body));
    std::atomic_thread_fence(std::memory_order_acquire);
    std::uint32_t position = 0;
    std::memcpy(&position, &shared.position, sizeof(position));
    if (shared.state.load(std::memory_order_relaxed) == seen.state && position == seen.position) break;
  }
  return seen;
}

class Search {
 public:
  explicit Search(const fabric::RankMemory& memory) : memory_(memory), segment_(memory.segment()) {}

  Result<FoundPosts> run() {
    found_.ring_tail = segment_.header().ring_tail.load(std::memory_order_seq_cst);
    look_at_slots();
    if (Status followed = follow_records(); !followed) return Error{followed.error()};
    if (segment_.header().groups_unlisted.load(std::memory_order_seq_cst) != 0) {
      return Error{"it uses more communicators than its segment can list"};
    }
    look_at_groups();
    std::ranges::sort(found_.operations, {}, [](const FoundPost& post) {
      return std::tuple(post.body.group_high, post.body.group_low, post.body.sequence);
    });
    std::ranges::sort(found_.requests, {}, [this](const FoundPost& post) { return post.position - found_.ring_tail; });
    return std::move(found_);
  }

 private:
  void note(const SlotRequestBody& body) {
    if (body.request != static_cast<std::uint16_t>(SlotRequest::operation)) return;
    std::uint64_t& next = found_.next_sequence[GroupId{body.group_high, body.group_low}];
    next = std::max(next, body.sequence + 1);
  }

  void take(const FoundPost& post) {
    const bool operation = post.body.request == static_cast<std::uint16_t>(SlotRequest::operation);
    (operation ? found_.operations : found_.requests).push_back(post);
  }

  void look_at_slots() {
    for (std::uint32_t index = 0; index < kSlotCount; ++index) {
      const OperationSlot& shared = segment_.slot(SlotIndex{index});
      if (is_state(shared.state.load(std::memory_order_relaxed), SlotState::free)) continue;
      const Seen seen = look_at(shared);
      if (is_state(seen.state, SlotState::free) || !is_before(seen.position, found_.ring_tail)) continue;
      note(seen.body);
      if (is_state(seen.state, SlotState::done)) continue;
      take(FoundPost{seen.body, {}, SlotIndex{index}, seen.position, is_state(seen.state, SlotState::filled)});
    }
  }

  const OverflowRecord* record_at(LocalRef ref) const {
    const std::byte* bytes = memory_.mapped(RegionId{ref.region}, ref.address, sizeof(OverflowRecord));
    const bool aligned = reinterpret_cast<std::uintptr_t>(bytes) % alignof(OverflowRecord) == 0;
    return aligned ? reinterpret_cast<const OverflowRecord*>(bytes) : nullptr;
  }

  LocalRef first_record() const {
    LocalRef first;
    first.region = segment_.header().overflow_first_region.load(std::memory_order_acquire);
    first.address = segment_.header().overflow_first_address.load(std::memory_order_relaxed);
    return first;
  }

  // The rank frees finished records from the front: a read is valid only if the front has not moved.
  Status follow_records() {
    found_.overflow_taken = segment_.header().overflow_taken.load(std::memory_order_acquire);
    if (found_.overflow_taken == 0) return Done{};
    for (int tries = 0; tries < kMostTries; ++tries) {
      const LocalRef first = first_record();
      std::vector<FoundPost> posts;
      std::vector<SlotRequestBody> done;
      const std::optional<LocalRef> last = follow_from(first, posts, done);
      std::atomic_thread_fence(std::memory_order_acquire);
      const LocalRef now = first_record();
      if (!last || now.region != first.region || now.address != first.address) continue;
      for (const SlotRequestBody& body : done) note(body);
      for (const FoundPost& post : posts) {
        note(post.body);
        take(post);
      }
      found_.last_record = last;
      return Done{};
    }
    return Error{"its overflow records cannot be followed"};
  }

  // Returns the last record that had been taken; nullopt: it was not reached.
  std::optional<LocalRef> follow_from(LocalRef at, std::vector<FoundPost>& posts,
                                      std::vector<SlotRequestBody>& done) const {
    std::optional<std::uint32_t> number;
    while (true) {
      const OverflowRecord* record = record_at(at);
      if (record == nullptr) return std::nullopt;
      std::uint32_t its_number = 0;
      std::memcpy(&its_number, &record->number, sizeof(its_number));
      if ((number && its_number != *number + 1) || !is_before(its_number, found_.overflow_taken)) return std::nullopt;
      number = its_number;
      const Seen seen = look_at(record->operation);
      if (is_state(seen.state, SlotState::posted) || is_state(seen.state, SlotState::filled)) {
        posts.push_back(FoundPost{seen.body, at, SlotIndex{}, 0, is_state(seen.state, SlotState::filled)});
      } else {
        done.push_back(seen.body);
      }
      if (its_number + 1 == found_.overflow_taken) return at;
      std::memcpy(&at, &record->next, sizeof(at));
    }
  }

  void look_at_groups() {
    const std::uint32_t used = segment_.header().groups_used.load(std::memory_order_acquire);
    for (std::uint32_t index = 0; index < std::min(used, kGroupEntries); ++index) {
      std::uint64_t done_below = 0;
      const std::optional<FoundGroup> group = look_at_group(segment_, index, done_below);
      if (!group) continue;
      std::uint64_t& next = found_.next_sequence[group->id];
      next = std::max(next, done_below);
      found_.groups.push_back(*group);
    }
  }

 public:
  static std::optional<FoundGroup> look_at_group(SegmentView segment, std::uint32_t index, std::uint64_t& done_below) {
    const GroupEntry& entry = segment.group(index);
    for (int tries = 0; tries < kMostTries; ++tries) {
      const std::uint32_t generation = entry.generation.load(std::memory_order_acquire);
      const std::uint32_t state = entry.state.load(std::memory_order_acquire);
      if (state == static_cast<std::uint32_t>(GroupState::none)) return std::nullopt;
      FoundGroup group;
      std::uint32_t plan_number = 0;
      std::uint32_t me = 0;
      std::memcpy(&group.id.high, &entry.group_high, sizeof(group.id.high));
      std::memcpy(&group.id.low, &entry.group_low, sizeof(group.id.low));
      std::memcpy(&group.size, &entry.group_size, sizeof(group.size));
      std::memcpy(&me, &entry.group_rank, sizeof(me));
      std::memcpy(&group.members, &entry.members, sizeof(group.members));
      std::memcpy(&plan_number, &entry.plan, sizeof(plan_number));
      done_below = entry.done_below.load(std::memory_order_acquire);
      group.me = GroupRank{me};
      group.plan.value = static_cast<std::uint16_t>(plan_number);
      group.freed = state == static_cast<std::uint32_t>(GroupState::freed);
      std::atomic_thread_fence(std::memory_order_acquire);
      const bool same = entry.state.load(std::memory_order_relaxed) == state &&
                        entry.generation.load(std::memory_order_relaxed) == generation;
      if (same) return group;
    }
    return std::nullopt;
  }

 private:
  const fabric::RankMemory& memory_;
  SegmentView segment_;
  FoundPosts found_;
};

}  // namespace

Result<FoundPosts> find_posts(const fabric::RankMemory& memory) {
  return Search(memory).run();
}

// A plan takes effect at a later call (steer/plan/dispatch_plan.hpp); an empty one is ignored.
std::map<GroupId, steer::PlanChange> newest_plans(std::span<const SegmentView> segments) {
  std::map<GroupId, steer::PlanChange> newest;
  for (const SegmentView segment : segments) {
    const std::uint32_t used = segment.header().groups_used.load(std::memory_order_acquire);
    for (std::uint32_t index = 0; index < std::min(used, kGroupEntries); ++index) {
      std::uint64_t done_below = 0;
      const std::optional<FoundGroup> group = Search::look_at_group(segment, index, done_below);
      if (!group || group->freed || !group->plan.valid()) continue;
      const steer::PlanChange plan = steer::plan_entry(segment, group->plan).plan();
      steer::PlanChange& known = newest[group->id];
      if (plan != steer::PlanChange{} && (known == steer::PlanChange{} || plan.from > known.from)) known = plan;
    }
  }
  return newest;
}

}  // namespace outrigger::service
