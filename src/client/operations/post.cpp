#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "client/rank_endpoint.hpp"

namespace outrigger::client {
namespace {

// Offsets from the buffer's base that hold every block.
struct Span {
  std::int64_t low = 0;
  std::int64_t high = 0;  // behind the last byte
  [[nodiscard]] bool empty() const { return low == high; }
};

bool extend(Span& span, bool& any, std::int64_t offset, std::uint64_t bytes) {
  if (bytes == 0) return true;
  std::int64_t end = 0;
  if (__builtin_add_overflow(offset, bytes, &end)) return false;
  span.low = any ? std::min(span.low, offset) : offset;
  span.high = any ? std::max(span.high, end) : end;
  any = true;
  return true;
}

// Nothing when the offsets overflow.
std::optional<Span> span_of(const BufferLayout& layout, std::uint32_t group_size) {
  Span span;
  bool any = false;
  if (!layout.extents.empty()) {
    for (const PairExtent& extent : layout.extents) {
      if (!extend(span, any, extent.offset_bytes, extent.bytes)) return std::nullopt;
    }
    return span;
  }
  std::int64_t last = 0;
  if (__builtin_mul_overflow(layout.stride_bytes, static_cast<std::int64_t>(group_size) - 1, &last))
    return std::nullopt;
  if (!extend(span, any, 0, layout.block_bytes) || !extend(span, any, last, layout.block_bytes)) return std::nullopt;
  return span;
}

bool fits_group(const BufferLayout& layout, const Group& group) {
  return layout.extents.empty() || layout.extents.size() == group.size();
}

SlotRequestBody describe(const OperationRequest& request) {
  const Group& group = *request.group;
  SlotRequestBody body;
  body.request = static_cast<std::uint16_t>(SlotRequest::operation);
  body.collective = static_cast<std::uint16_t>(request.collective);
  body.algorithm = static_cast<std::uint16_t>(request.algorithm);
  body.flags =
      (request.own_block_done ? kSlotOwnBlockDone : 0) | (request.receive_from_root ? kSlotReceiveFromRoot : 0);
  body.root = request.root;
  body.group_high = group.id().high;
  body.group_low = group.id().low;
  body.sequence = request.sequence;
  body.digest =
      operation_digest(request.collective, request.algorithm, request.root, group.size(), request.configuration);
  body.group_size = group.size();
  body.group_rank = group.me().value();
  body.members = LocalRef{group.members().region.value(), 0, group.members().address};
  return body;
}

std::unique_ptr<DeferredRequest> keep(const SlotRequestBody& body, const OperationArguments& arguments) {
  auto kept = std::make_unique<DeferredRequest>();
  kept->body = body;
  kept->send_extents.assign(arguments.send_extents.begin(), arguments.send_extents.end());
  kept->receive_extents.assign(arguments.receive_extents.begin(), arguments.receive_extents.end());
  return kept;
}

}  // namespace

RankEndpoint::Filled RankEndpoint::fill_layout(const BufferLayout& layout, std::uint32_t group_size, SlotLayout& filled,
                                               MemoryRange& in_heap) {
  const std::optional<Span> span = span_of(layout, group_size);
  if (!span) return {Side::impossible};
  if (span->empty()) return {Side::without_bytes};  // private, address 0, blocks of no bytes
  const std::uint64_t base = reinterpret_cast<std::uintptr_t>(layout.base);
  const std::uint64_t begin = base + static_cast<std::uint64_t>(span->low);
  const std::uint64_t bytes = static_cast<std::uint64_t>(span->high) - static_cast<std::uint64_t>(span->low);
  RegionId id = kPrivateRegion;
  if (keys_) {
    const std::optional<RegionId> key = keys_->use(begin, bytes);
    if (!key) return {Side::impossible};
    id = *key;
  } else if (const Region* region = regions_.find(begin, bytes)) {
    id = region->id;
    if (region->use == RegionUse::heap) in_heap = MemoryRange{id, begin, bytes};
  } else if (!cma()) {
    return {Side::impossible};
  }
  filled.base = LocalRef{id.value(), 0, base};
  if (layout.extents.empty()) {
    filled.stride_bytes = layout.stride_bytes;
    filled.block_bytes = layout.block_bytes;
  }
  return {Side::with_bytes, begin, bytes, id == kPrivateRegion};
}

void RankEndpoint::release_keys(const SlotRequestBody& body) {
  keys_->release(RegionId{body.send.base.region});
  keys_->release(RegionId{body.receive.base.region});
}

PendingOperationPtr RankEndpoint::post(const OperationRequest& request) {
  if (inert() || !request.group || &request.group->endpoint() != this) return nullptr;
  const Group& group = *request.group;
  if (!fits_group(request.send, group) || !fits_group(request.receive, group)) return nullptr;
  SlotRequestBody body = describe(request);
  PendingOperationPtr operation(new PendingOperation(request.group));
  Lock lock(mutex_);
  std::vector<Region> outdated = follow_heap();
  const Filled send = fill_layout(request.send, group.size(), body.send, operation->in_heap[0]);
  const Filled receive = fill_layout(request.receive, group.size(), body.receive, operation->in_heap[1]);
  if (send.side == Side::impossible || receive.side == Side::impossible) {
    if (keys_) release_keys(body);
    lock.unlock();
    return nullptr;
  }
  // A side without bytes needs no extents either.
  OperationArguments arguments;
  if (send.side == Side::with_bytes) arguments.send_extents = request.send.extents;
  if (receive.side == Side::with_bytes) arguments.receive_extents = request.receive.extents;
  if (!waiting_.empty()) post_waiting();
  if (!waiting_.empty() || !place(*operation, body, arguments)) {
    if (waiting_.empty() && nothing_can_be_placed()) {
      if (keys_) release_keys(body);
      lock.unlock();
      return nullptr;
    }
    operation->deferred = keep(body, arguments);
    waiting_.push_back(operation.get());
    note_waiting();
  }
  const bool growing = growth_.has_value();
  start_copier_if_wanted();
  note_source(send);
  if (passes_on(request.collective, request.algorithm)) note_source(receive);
  unlock_and_ring(lock);
  for (Region& region : outdated) drop_region(std::move(region));
  if (growing) wait_for_growth();
  helper_.posted(std::max(send.bytes, receive.bytes));
  return operation;
}

void RankEndpoint::start_copier_if_wanted() {
  if (header().copies.wanted.load(std::memory_order_acquire) == 0) return;
  const bool lends = copy::lenders_with(welcome_.core_share) == copy::Lenders::copiers;
  if ((welcome_.reach & kReachCopier) == 0 || !lends || inert()) return;
  copier_.start(header().copies, huge_pages_, welcome_.cpu);
}

void RankEndpoint::note_source(const Filled& side) {
  if (!side.is_private || !(copier_.runs() || helper_.alone())) return;
  if (huge_pages_.note_source(side.begin, side.bytes)) ring_copier(header().copies);
}

// Left on the heap, the operation would wait for the program's next call, which may be a long one into the native MPI.
// The keeper answers in a fraction of a millisecond, and finish_growth() knows when not to wait any longer.
void RankEndpoint::wait_for_growth() {
  constexpr std::chrono::microseconds kBetweenLooks{20};
  while (true) {
    Lock lock(mutex_);
    post_waiting();
    const bool growing = growth_.has_value();
    unlock_and_ring(lock);
    if (!growing) return;
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

bool RankEndpoint::place(PendingOperation& operation, SlotRequestBody body, const OperationArguments& arguments) {
  const bool overflows = overflow_.holds_posts(header()) || out_of_slots();
  if (overflows && keys_) return false;
  std::optional<MemoryRange> record;
  if (overflows && !(record = allocate_arguments(sizeof(OverflowRecord)))) return false;
  const std::optional<MemoryRange> copied = copy_arguments(body, arguments);
  if (!copied) {
    if (record) arguments_.release(*record);
    return false;
  }
  operation.arguments = *copied;
  if (record) {
    overflow_.append(header(), *record, operation, body);
    ring_if_asleep();
  } else {
    put_in_slot(operation, body);
  }
  ++posted_operations_;
  operation.group->mark_used();
  operation.phase.store(PendingOperation::Phase::posted, std::memory_order_release);
  return true;
}

void RankEndpoint::put_in_slot(PendingOperation& operation, const SlotRequestBody& body) {
  const SlotIndex slot = free_slots_.back();
  free_slots_.pop_back();
  in_slot_[slot.value()] = &operation;
  operation.place = &segment_.view().slot(slot);
  operation.number = slot.value();
  publish(slot, body);
}

// One range for all: send extents, receive extents, marks.
std::optional<MemoryRange> RankEndpoint::copy_arguments(SlotRequestBody& body, const OperationArguments& arguments) {
  const std::uint64_t bytes =
      arguments.send_extents.size_bytes() + arguments.receive_extents.size_bytes() + body.group_size;
  const std::optional<MemoryRange> range = allocate_arguments(bytes);
  if (!range) return std::nullopt;
  std::uint64_t address = range->address;
  const auto copy = [&](std::span<const PairExtent> extents) {
    if (extents.empty()) return LocalRef{};
    const LocalRef ref{range->region.value(), 0, address};
    std::memcpy(reinterpret_cast<void*>(address), extents.data(), extents.size_bytes());
    address += extents.size_bytes();
    return ref;
  };
  body.send.extents = copy(arguments.send_extents);
  body.receive.extents = copy(arguments.receive_extents);
  body.marks = LocalRef{range->region.value(), 0, address};
  std::memset(reinterpret_cast<void*>(address), 0, body.group_size);
  return range;
}

std::optional<MemoryRange> RankEndpoint::allocate_arguments(std::uint64_t bytes) {
  std::optional<MemoryRange> range = arguments_.allocate(bytes);
  if (!range && reap()) range = arguments_.allocate(bytes);
  if (range) return range;
  start_growth(bytes);
  if (keys_ && !growth_failed_) range = arguments_.allocate(bytes);
  return range;
}

void RankEndpoint::publish(SlotIndex index, const SlotRequestBody& body) {
  const SegmentView& view = segment_.view();
  OperationSlot& slot = view.slot(index);
  slot.body = body;
  slot.state.store(static_cast<std::uint32_t>(SlotState::posted), std::memory_order_release);
  view.ring_entry(ring_tail_).store(index.value(), std::memory_order_relaxed);
  ++ring_tail_;
  header().ring_tail.store(ring_tail_, std::memory_order_seq_cst);
  ring_if_asleep();
}

// The service process says that it sleeps and then looks at the tails; here it is the other way round, both in the one
// order of sequentially consistent operations, so one of the two notices.
void RankEndpoint::ring_if_asleep() {
  if (header().service_sleeping.load(std::memory_order_seq_cst) != 0) doorbell_due_ = true;
}

void RankEndpoint::unlock_and_ring(Lock& lock) {
  const bool due = std::exchange(doorbell_due_, false);
  if (due && network_) network_->ring();
  lock.unlock();
  if (due && !network_) ring_doorbell();
}

void RankEndpoint::ring_doorbell() const {
  const std::uint64_t one = 1;
  ssize_t written = 0;
  do {
    written = ::write(doorbell_.get(), &one, sizeof(one));
  } while (written < 0 && errno == EINTR);
}

void RankEndpoint::post_waiting() {
  finish_growth();
  while (!waiting_.empty()) {
    PendingOperation& operation = *waiting_.front();
    if (place(operation, operation.deferred->body, operation.deferred->arguments())) {
      operation.deferred.reset();
    } else if (!free_slots_.empty() && nothing_can_be_placed()) {
      // Nothing will come back that it could wait for: an end with a name, not a hang.
      finish_locally(operation, CompletionStatus::rejected);
    } else {
      break;
    }
    waiting_.pop_front();
  }
  while (!waiting_forgets_.empty()) {
    if (out_of_slots()) break;
    post_forget(waiting_forgets_.front());
    waiting_forgets_.pop_front();
  }
  note_waiting();
}

void RankEndpoint::post_forget(const GroupId& group) {
  SlotRequestBody body;
  body.request = static_cast<std::uint16_t>(SlotRequest::forget_group);
  body.group_high = group.high;
  body.group_low = group.low;
  const SlotIndex slot = free_slots_.back();
  free_slots_.pop_back();
  publish(slot, body);
}

}  // namespace outrigger::client
