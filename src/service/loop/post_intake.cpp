#include "service/loop/post_intake.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <variant>

#include "base/clock.hpp"
#include "protocol/options/selection.hpp"
#include "service/loop/faults.hpp"
#include "service/notices/log.hpp"

namespace outrigger::service {
namespace {

constexpr std::uint32_t kPostsPerTurn = 64;  // per rank and turn

bool has_small_blocks(const engine::BlockLayout& layout) {
  const auto is_small = [](const PairExtent& extent) { return extent.bytes <= kSmallBlockBytes; };
  if (layout.extents.empty()) return layout.block_bytes <= kSmallBlockBytes;
  return std::ranges::all_of(layout.extents, is_small);
}

std::int64_t monotonic_ns() {
  return time_on(CLOCK_MONOTONIC).count();
}

}  // namespace

void PostIntake::serve(WorldRank rank, SegmentView segment) {
  served_.push_back(ServedRank{rank, segment});
}

void PostIntake::start(engine::Engine& engine, steer::Coordinator& coordinator, fabric::RankView& completes,
                       std::uint32_t world_size) {
  engine_ = &engine;
  coordinator_ = &coordinator;
  completes_ = &completes;
  world_size_ = world_size;
  groups_.emplace(world_size);
}

void PostIntake::remove(WorldRank rank) {
  if (groups_) groups_->forget_rank(rank);
  plans_.forget_rank(rank);
  std::erase_if(served_, [&](const ServedRank& served) { return served.rank == rank; });
}

bool PostIntake::take() {
  assert(engine_ != nullptr && "posts need an engine");
  bool any = false;
  for (ServedRank& served : served_) any |= take_slots_of(served);
  has_taken_ |= any;
  return any;
}

bool PostIntake::take_slots_of(ServedRank& served) {
  SegmentHeader& header = served.segment.header();
  const std::uint32_t posted = header.ring_tail.load(std::memory_order_acquire) - served.head;
  if (posted == 0) return take_overflow_of(served);
  if (posted > kSlotCount) {
    report_fault(served, "its post ring has an invalid number of posted slots: " + std::to_string(posted));
    return true;
  }
  for (std::uint32_t i = 0; i < std::min(posted, kPostsPerTurn); ++i) {
    const SlotIndex slot{served.segment.ring_entry(served.head).load(std::memory_order_relaxed)};
    ++served.head;
    header.ring_head.store(served.head, std::memory_order_release);
    if (!node_.slots().open(served.rank, slot)) {
      report_fault(served, "it posted slot " + std::to_string(slot.value()) + ", which is in use or does not exist");
      return true;
    }
    SlotRequestBody body;
    std::memcpy(&body, &served.segment.slot(slot).body, sizeof(body));
    take_operation(served.rank, slot, body);
  }
  return true;
}

bool PostIntake::take_overflow_of(ServedRank& served) {
  SegmentHeader& header = served.segment.header();
  const std::uint32_t appended = header.overflow_tail.load(std::memory_order_acquire) - served.overflow_taken;
  if (appended == 0) return false;
  if (header.ring_tail.load(std::memory_order_acquire) != served.head) return true;  // that one was posted before
  for (std::uint32_t i = 0; i < std::min(appended, kPostsPerTurn); ++i) {
    const std::optional<LocalRef> ref = next_record(served);
    const std::optional<SlotIndex> slot = ref ? node_.slots().open_record(served.rank, *ref) : std::nullopt;
    if (!slot) {
      report_fault(served, "its overflow record " + std::to_string(served.overflow_taken) +
                               " is in use or not in its shared memory");
      return true;
    }
    OverflowRecord record;
    const std::byte* shared =
        node_.rank(served.rank)->mapped(RegionId{ref->region}, ref->address, sizeof(OverflowRecord));
    std::memcpy(&record.operation.body, shared + offsetof(OverflowRecord, operation.body), sizeof(SlotRequestBody));
    std::memcpy(&record.number, shared + offsetof(OverflowRecord, number), sizeof(record.number));
    if (record.number != served.overflow_taken) {
      report_fault(served, "its overflow records are not in order");
      return true;
    }
    served.last_record = ref;
    header.overflow_taken.store(++served.overflow_taken, std::memory_order_release);
    take_operation(served.rank, *slot, record.operation.body);
  }
  return true;
}

std::optional<LocalRef> PostIntake::next_record(const ServedRank& served) {
  const SegmentHeader& header = served.segment.header();
  LocalRef next;
  if (!served.last_record) {
    next.region = header.overflow_first_region.load(std::memory_order_acquire);
    next.address = header.overflow_first_address.load(std::memory_order_relaxed);
    return next;
  }
  const std::byte* last =
      node_.rank(served.rank)
          ->mapped(RegionId{served.last_record->region}, served.last_record->address, sizeof(OverflowRecord));
  if (last == nullptr) return std::nullopt;
  std::memcpy(&next, last + offsetof(OverflowRecord, next), sizeof(next));
  return next;
}

// ---------------------------------------------------------------- taking over from a dead service process

bool PostIntake::copies_are_over() const {
  return std::ranges::all_of(served_,
                             [](const ServedRank& served) { return hands_are_out(served.segment.header().copies); });
}

// Reads the ranks' progress and plans before their posts, and their freed groups after these: a post may ask for a
// change, which must begin from the plan that ranks have. Wakes ranks whose completion the dead process had written
// without waking them.
Status PostIntake::take_over(std::uint32_t restarts) {
  std::vector<FoundPosts> all;
  for (const ServedRank& served : served_) {
    Result<FoundPosts> found = find_posts(*node_.rank(served.rank));
    if (!found) return Error{"rank " + std::to_string(served.rank.value()) + ": " + found.error()};
    restore_groups(served.rank, found.value());
    all.push_back(std::move(found).value());
  }
  restore_plans();
  std::size_t again = 0;
  for (std::size_t i = 0; i < served_.size(); ++i) {
    ServedRank& served = served_[i];
    SegmentHeader& header = served.segment.header();
    served.head = all[i].ring_tail;
    served.overflow_taken = all[i].overflow_taken;
    served.last_record = all[i].last_record;
    header.ring_head.store(served.head, std::memory_order_release);
    for (const FoundPost& post : all[i].operations) take_found(served, post);
    for (const FoundPost& post : all[i].requests) take_found(served, post);
    for (const FoundGroup& group : all[i].groups) {
      if (!group.freed) continue;
      engine_->forget_group(served.rank, group.id);
      coordinator_->forget_group(served.rank, group.id);
    }
    again += all[i].operations.size();
    header.service_restarts.store(restarts, std::memory_order_relaxed);
    wake_sleepers(header);
  }
  spdlog::info("replaced another service process: takes {} operations again", again);
  return Done{};
}

void PostIntake::restore_groups(WorldRank rank, const FoundPosts& found) {
  for (const FoundGroup& group : found.groups) {
    const std::byte* shared = node_.rank(rank)->mapped(RegionId{group.members.region}, group.members.address,
                                                       std::uint64_t{group.size} * sizeof(std::uint32_t));
    const bool readable = shared != nullptr && reinterpret_cast<std::uintptr_t>(shared) % alignof(std::uint32_t) == 0;
    // mirrors get the members with posts
    if (group.freed || !readable || group.size > world_size_ || mirrors_) continue;
    const std::span members(reinterpret_cast<const std::uint32_t*>(shared), group.size);
    const Result<Members> known = groups_->intern(rank, group.id, members, group.me);
    if (!known || !group.plan.valid()) continue;
    plans_.learn(rank, group.id, group.plan);
    coordinator_->join(rank, group.id, known.value());
  }
  for (const auto& [group, next] : found.next_sequence) engine_->restore_progress(rank, group, next);
}

void PostIntake::take_found(ServedRank& served, const FoundPost& post) {
  const std::optional<SlotIndex> slot =
      post.record ? node_.slots().open_record(served.rank, *post.record, post.told) : std::optional(post.slot);
  const bool open = slot && (post.record || node_.slots().open(served.rank, *slot, post.told));
  if (!open) return report_fault(served, "a post is in use or not in its shared memory");
  take_operation(served.rank, *slot, post.body, Taken::again);
}

void PostIntake::restore_plans() {
  std::vector<SegmentView> segments;
  for (std::uint32_t rank = 0; rank < world_size_; ++rank) {
    if (const fabric::RankMemory* memory = node_.rank(WorldRank{rank})) segments.push_back(memory->segment());
  }
  for (const auto& [group, plan] : newest_plans(segments)) coordinator_->restore_plan(group, plan);
}

// ---------------------------------------------------------------- one request

void PostIntake::take_operation(WorldRank rank, SlotIndex slot, const SlotRequestBody& body, Taken taken) {
  Result<DecodedSlot> decoded = decode_slot(body, rank, slot, *node_.rank(rank), world_size_, *groups_);
  if (!decoded) {
    spdlog::warn("rank {}, slot {}: rejected: {}", rank.value(), slot.value(), decoded.error());
    return reject(rank, slot, body);
  }
  std::visit(
      [&]<class Said>(Said& said) {
        if constexpr (std::is_same_v<Said, engine::PostedOperation>) {
          post(body, std::move(said), taken);
        } else {
          note(rank, body, said);
          completes_->complete(rank, slot, {});
        }
      },
      decoded.value());
}

void PostIntake::post(const SlotRequestBody& body, engine::PostedOperation&& operation, Taken taken) {
  if (taken == Taken::again) {
    const auto* marks = reinterpret_cast<const std::uint8_t*>(  // decoding has checked the range
        node_.rank(operation.rank)->mapped(RegionId{body.marks.region}, body.marks.address, body.group_size));
    operation.marks.assign(marks, marks + body.group_size);
  }
  if (taken == Taken::first) tell_awaited(operation);
  node_.slots().set_marks(operation.rank, operation.slot, body.marks, body.group_size);
  plans_.learn(operation.rank, operation.id.group, PlanNumber{body.plan});
  if ((body.flags & kSlotTimed) != 0) {
    node_.slots().set_lateness(operation.rank, operation.slot, lateness_.posted(operation.id, monotonic_ns()));
  }
  const bool by_plan = body.plan != 0 && (body.flags & kSlotByPlan) != 0;
  coordinator_->posted(operation.rank, operation.id.group, operation.members, by_plan);
  if (by_plan) {
    const bool small = has_small_blocks(operation.send) && has_small_blocks(operation.receive);
    coordinator_->note_blocks(operation.id, operation.collective, small);
  }
  if (heartbeat_ != nullptr) heartbeat_->taken(operation.id, operation.collective);
  if (trace_ != nullptr) trace_->taken(operation);
  fail_at(operation.collective);
  engine_->post(std::move(operation));
}

void PostIntake::tell_awaited(const engine::PostedOperation& operation) {
  const auto size = static_cast<std::uint32_t>(operation.members->size());
  const std::optional<GroupRank> last = awaited_.posted(operation.id, operation.me, size);
  if (!last || last->value() >= size) return;
  const auto served = std::ranges::find(served_, (*operation.members)[last->value()], &ServedRank::rank);
  if (served == served_.end()) return;
  served->segment.header().awaited_post.store(post_tag(operation.id), std::memory_order_relaxed);
}

void PostIntake::note(WorldRank rank, const SlotRequestBody& /*body*/, const ForgetGroup& forget) {
  engine_->forget_group(rank, forget.group);
  coordinator_->forget_group(rank, forget.group);
  groups_->forget(rank, forget.group);
  lateness_.forget(forget.group);
  plans_.forget(rank, forget.group);
}

void PostIntake::note(WorldRank /*rank*/, const SlotRequestBody& /*body*/, const LargerBlocks& larger) {
  coordinator_->larger_blocks(larger.group, larger.collective);
}

void PostIntake::note(WorldRank rank, const SlotRequestBody& body, const JoinPlan& join) {
  plans_.learn(rank, join.group, PlanNumber{body.plan});
  coordinator_->join(rank, join.group, join.members);
}

void PostIntake::note(WorldRank rank, const SlotRequestBody& /*body*/, const AskTrial& ask) {
  coordinator_->ask_trial(rank, ask.group, ask.request);
}

void PostIntake::note(WorldRank rank, const SlotRequestBody& /*body*/, const Recall& recall) {
  coordinator_->recall(rank, recall.group, recall.decision);
}

void PostIntake::note(WorldRank rank, const SlotRequestBody& /*body*/, const TrialMeasured& measured) {
  const std::optional<steer::TrialTimes> times = plans_.times(rank, measured.group);
  if (times) coordinator_->measured(rank, measured.group, measured.trial, *times);
}

void PostIntake::note(WorldRank rank, const SlotRequestBody& /*body*/, const GiveUpTrial& given_up) {
  coordinator_->give_up_trial(rank, given_up.group, given_up.trial);
}

void PostIntake::reject(WorldRank rank, SlotIndex slot, const SlotRequestBody& body) {
  const GroupId group{body.group_high, body.group_low};
  if (body.request == static_cast<std::uint16_t>(SlotRequest::operation) && groups_->uses(rank, group)) {
    // The engine rejects it and tells the other members, which would wait for ever.
    engine::PostedOperation unusable;
    unusable.rank = rank;
    unusable.slot = slot;
    unusable.id = OperationId{group, body.sequence};
    return engine_->post(std::move(unusable));
  }
  fabric::CompletionRecord record;
  record.status = CompletionStatus::rejected;
  completes_->complete(rank, slot, record);
}

void PostIntake::report_fault(const ServedRank& served, std::string reason) {
  misbehaved_.push_back(Misbehaved{served.rank, std::move(reason)});
}

bool PostIntake::ranks_wait() const {
  return !served_.empty() && std::ranges::all_of(served_, [](const ServedRank& served) {
    return served.segment.header().rank_sleeping.load(std::memory_order_relaxed) != 0;
  });
}

bool PostIntake::arm(bool backlogged) {
  announce_sleep(true);
  return backlogged || engine_ == nullptr || std::ranges::none_of(served_, [](const ServedRank& served) {
           const SegmentHeader& header = served.segment.header();
           return header.ring_tail.load(std::memory_order_seq_cst) != served.head ||
                  header.overflow_tail.load(std::memory_order_seq_cst) != served.overflow_taken;
         });
}

void PostIntake::announce_sleep(bool sleeping) {
  if (mirrors_) return;
  for (const ServedRank& served : served_) {
    served.segment.header().service_sleeping.store(sleeping ? 1 : 0, std::memory_order_seq_cst);
  }
}

}  // namespace outrigger::service
