#include "service/loop/post_intake.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <variant>

#include "service/log.hpp"

namespace outrigger::service {
namespace {

constexpr std::uint32_t kPostsPerTurn = 64;  // of one rank, before the next one's turn

}  // namespace

void PostIntake::serve(WorldRank rank, SegmentView segment) {
  // Slots from where another service process has been; overflow records of which one has taken some are not followed.
  served_.push_back(ServedRank{rank, segment, segment.header().ring_head.load(std::memory_order_relaxed)});
}

void PostIntake::start(engine::Engine& engine, fabric::Fabric& completes, std::uint32_t world_size) {
  engine_ = &engine;
  completes_ = &completes;
  world_size_ = world_size;
  groups_.emplace(world_size);
}

void PostIntake::remove(WorldRank rank) {
  if (groups_) groups_->forget_rank(rank);
  std::erase_if(served_, [&](const ServedRank& served) { return served.rank == rank; });
}

bool PostIntake::take() {
  assert(engine_ != nullptr && "what ranks post has somewhere to go");
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
    protest(served, "its post ring says that " + std::to_string(posted) + " slots are posted");
    return true;
  }
  for (std::uint32_t i = 0; i < std::min(posted, kPostsPerTurn); ++i) {
    const SlotIndex slot{served.segment.ring_entry(served.head).load(std::memory_order_relaxed)};
    ++served.head;
    header.ring_head.store(served.head, std::memory_order_release);
    if (!node_.slots().open(served.rank, slot)) {
      protest(served, "it posted slot " + std::to_string(slot.value()) + ", which is in use or does not exist");
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
  if (header.ring_tail.load(std::memory_order_acquire) != served.head) return true;  // that was posted before
  for (std::uint32_t i = 0; i < std::min(appended, kPostsPerTurn); ++i) {
    const std::optional<LocalRef> ref = next_record(served);
    const std::optional<SlotIndex> slot = ref ? node_.slots().open_record(served.rank, *ref) : std::nullopt;
    if (!slot) {
      protest(served, "its overflow record " + std::to_string(served.overflow_taken) +
                          " is in use or not in its shared memory");
      return true;
    }
    OverflowRecord record;
    const std::byte* shared =
        node_.rank(served.rank)->mapped(RegionId{ref->region}, ref->address, sizeof(OverflowRecord));
    std::memcpy(&record.operation.body, shared + offsetof(OverflowRecord, operation.body), sizeof(SlotRequestBody));
    std::memcpy(&record.number, shared + offsetof(OverflowRecord, number), sizeof(record.number));
    if (record.number != served.overflow_taken) {
      protest(served, "its overflow records are not in order");
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

void PostIntake::take_operation(WorldRank rank, SlotIndex slot, const SlotRequestBody& body) {
  Result<DecodedSlot> decoded = decode_slot(body, rank, slot, *node_.rank(rank), world_size_, *groups_);
  if (!decoded) {
    spdlog::warn("rank {}, slot {}: rejected: {}", rank.value(), slot.value(), decoded.error());
    return reject(rank, slot, body);
  }
  std::visit(
      [&]<class Said>(Said& said) {
        if constexpr (std::is_same_v<Said, engine::PostedOperation>) {
          post(body, std::move(said));
        } else {
          note(rank, body, said);
          completes_->complete(rank, slot, {});
        }
      },
      decoded.value());
}

void PostIntake::post(const SlotRequestBody& body, engine::PostedOperation&& operation) {
  node_.slots().set_marks(operation.rank, operation.slot, body.marks, body.group_size);
  node_.courses().learn(operation.rank, operation.id.group, CourseNumber{body.course});
  courses_.posted(operation);
  engine_->post(std::move(operation));
}

void PostIntake::note(WorldRank rank, const SlotRequestBody& /*body*/, const ForgetGroup& forget) {
  engine_->forget_group(rank, forget.group);
  groups_->forget(rank, forget.group);
  courses_.forget(forget.group);
  node_.courses().forget(rank, forget.group);
}

void PostIntake::note(WorldRank /*rank*/, const SlotRequestBody& /*body*/, const LargerBlocks& larger) {
  courses_.larger_blocks(larger.group, larger.collective);
}

void PostIntake::note(WorldRank rank, const SlotRequestBody& body, const JoinCourse& join) {
  node_.courses().learn(rank, join.group, CourseNumber{body.course});
  engine_->join(rank, join.group, join.members);
}

void PostIntake::note(WorldRank rank, const SlotRequestBody& /*body*/, const AskTrial& ask) {
  engine_->ask_trial(rank, ask.group, ask.request);
}

void PostIntake::note(WorldRank rank, const SlotRequestBody& /*body*/, const Recall& recall) {
  engine_->recall(rank, recall.group, recall.choice);
}

void PostIntake::note(WorldRank rank, const SlotRequestBody& /*body*/, const TrialMeasured& measured) {
  const std::optional<TrialTimes> times = node_.courses().times(rank, measured.group);
  if (times) engine_->measured(rank, measured.group, measured.trial, *times);
}

void PostIntake::note(WorldRank rank, const SlotRequestBody& /*body*/, const GiveUpTrial& given_up) {
  engine_->give_up_trial(rank, given_up.group, given_up.trial);
}

void PostIntake::reject(WorldRank rank, SlotIndex slot, const SlotRequestBody& body) {
  const GroupId group{body.group_high, body.group_low};
  if (body.request == static_cast<std::uint16_t>(SlotRequest::operation) && groups_->uses(rank, group)) {
    // The engine rejects it and tells the others of the group, who would wait for ever.
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

void PostIntake::protest(const ServedRank& served, std::string reason) {
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
