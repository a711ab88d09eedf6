#include "client/operations/rank_posts.hpp"

#include <cstring>
#include <utility>

#include "client/operations/client_group.hpp"
#include "client/operations/slot_request.hpp"

namespace outrigger::client {
namespace {

using Phase = PendingOperation::Phase;

void read_result(const OperationSlot& slot, OperationResult& result) {
  const std::uint32_t status = slot.result.status;
  const bool known = status <= static_cast<std::uint32_t>(CompletionStatus::passed_natively);
  result.status = known ? static_cast<CompletionStatus>(status) : CompletionStatus::rejected;
  result.bytes_by_reach = slot.result.bytes_by_reach;
  result.late_announcements = slot.result.late_announcements;
  result.done_ns = slot.result.done_ns;
  result.late_ns = slot.result.late_ns;
  result.passed_by = WorldRank{slot.result.passed_by};
}

// Rare, so not in each caller that is compiled flat.
[[gnu::noinline]] std::unique_ptr<DeferredRequest> keep(const SlotRequestBody& body,
                                                        const OperationArguments& arguments) {
  auto kept = std::make_unique<DeferredRequest>();
  kept->body = body;
  const auto copy = [](const SideArguments& from, DeferredRequest::Side& to) {
    to.extents.assign(from.extents.begin(), from.extents.end());
    to.neighbors.assign(from.neighbors.begin(), from.neighbors.end());
  };
  copy(arguments.send, kept->send);
  copy(arguments.receive, kept->receive);
  return kept;
}

std::uint64_t bytes_of(const SideArguments& side) {
  return side.neighbors.empty() ? side.extents.size_bytes() : side.neighbors.size() * sizeof(NeighborExtent);
}

// As service processes read it.
void write(const SideArguments& side, void* to) {
  if (side.neighbors.empty()) return static_cast<void>(std::memcpy(to, side.extents.data(), side.extents.size_bytes()));
  auto* extents = static_cast<NeighborExtent*>(to);
  for (std::size_t i = 0; i < side.neighbors.size(); ++i) {
    extents[i] = NeighborExtent{side.extents[i], side.neighbors[i], 0};
  }
}

}  // namespace

bool Posts::post_or_keep(PendingOperation& operation, SlotRequestBody& body, const OperationArguments& arguments) {
  if (!waiting_.empty()) {
    post_waiting();
    if (waiting_.empty() && place(operation, body, arguments)) return true;
  }
  if (waiting_.empty() && nothing_can_be_placed()) return false;
  operation.deferred = keep(body, arguments);
  waiting_.push_back(&operation);
  note_waiting();
  return true;
}

bool Posts::place(PendingOperation& operation, SlotRequestBody& body, const OperationArguments& arguments) {
  if (!(overflows() ? place_in_record(operation, body, arguments) : place_in_slot(operation, body, arguments)))
    return false;
  doorbell_.posted();
  ++placed_;
  operation.phase.store(Phase::posted, std::memory_order_release);
  return true;
}

bool Posts::place_in_slot(PendingOperation& operation, SlotRequestBody& body, const OperationArguments& arguments) {
  if (body.group_size <= kSlotMarksBytes && arguments.empty()) [[likely]] {
    operation.arguments = {};
    body.marks = slots_.next_marks();
  } else if (!copy_arguments(operation, body, arguments)) {
    return false;
  }
  use(*operation.group);
  slots_.post(operation, body);
  return true;
}

bool Posts::place_in_record(PendingOperation& operation, SlotRequestBody& body, const OperationArguments& arguments) {
  if (regions_.registers()) return false;  // a DPU does not follow the chain
  const std::optional<MemoryRange> record = allocate_arguments(sizeof(OverflowRecord));
  if (!record) return false;
  if (!copy_arguments(operation, body, arguments)) {
    arguments_.undo(*record);
    return false;
  }
  use(*operation.group);
  overflow_.append(header_, *record, operation, body);
  return true;
}

// One range for all: send extents, receive extents, marks.
bool Posts::copy_arguments(PendingOperation& operation, SlotRequestBody& body, const OperationArguments& arguments) {
  const std::uint64_t bytes = bytes_of(arguments.send) + bytes_of(arguments.receive) + body.group_size;
  const std::optional<MemoryRange> range = allocate_arguments(bytes);
  if (!range) return false;
  operation.arguments = *range;
  std::uint64_t address = range->address;
  const auto copy = [&](const SideArguments& side) {
    if (side.extents.empty()) return LocalRef{};
    const LocalRef ref{range->region.value(), static_cast<std::uint32_t>(side.neighbors.size()), address};
    write(side, reinterpret_cast<void*>(address));
    address += bytes_of(side);
    return ref;
  };
  body.send.extents = copy(arguments.send);
  body.receive.extents = copy(arguments.receive);
  body.marks = LocalRef{range->region.value(), 0, address};
  std::memset(reinterpret_cast<void*>(address), 0, body.group_size);
  return true;
}

std::optional<MemoryRange> Posts::allocate_arguments(std::uint64_t bytes) {
  const std::optional<MemoryRange> range = arguments_.allocate(bytes);
  if (range) return range;
  return reap_and_allocate(bytes, true);
}

std::optional<MemoryRange> Posts::reap_and_allocate(std::uint64_t bytes, bool may_grow) {
  std::optional<MemoryRange> range = reap() ? arguments_.allocate(bytes) : std::nullopt;
  return range || !may_grow ? range : arguments_.grow_for(bytes);
}

void Posts::post_waiting() {
  arguments_.finish_growth();
  while (!waiting_.empty()) {
    PendingOperation& operation = *waiting_.front();
    if (place(operation, operation.deferred->body, operation.deferred->arguments())) {
      operation.deferred.reset();
    } else if (!slots_.all_in_use() && nothing_can_be_placed()) {
      reject(operation);
    } else {
      break;
    }
    waiting_.pop_front();
  }
  for (; !tidings_.empty() && !out_of_slots(); tidings_.pop_front()) {
    slots_.post_unowned(tidings_.front());
    doorbell_.posted();
  }
  note_waiting();
}

// Nothing will come back that it could wait for: an end with a name, not a hang.
void Posts::reject(PendingOperation& operation) {
  regions_.release_registrations(operation.deferred->body);
  operation.deferred.reset();
  operation.result = {};
  operation.result.status = CompletionStatus::rejected;
  operation.phase.store(Phase::done, std::memory_order_release);
}

bool Posts::collect_if_done(PendingOperation& operation) {
  const Phase phase = operation.phase.load(std::memory_order_relaxed);
  if (phase == Phase::done) return true;
  if (phase != Phase::posted && phase != Phase::filled) return false;
  const OperationSlot& place = *operation.place;
  if (!is_done(place)) return false;
  if (phase == Phase::posted) read_result(place, operation.result);
  arguments_.release(operation.arguments);
  regions_.release_registrations(place.body);
  groups_.note_done(*operation.group, place.body.sequence);
  if (operation.overflowed) {
    overflow_.finish(operation);
    overflow_.give_back(header_, arguments_);
  } else {
    slots_.release(SlotIndex(operation.number));
  }
  --placed_;
  operation.phase.store(Phase::done, std::memory_order_release);
  return true;
}

bool Posts::collect_if_filled(PendingOperation& operation) {
  if (collect_if_done(operation)) return true;
  const Phase phase = operation.phase.load(std::memory_order_relaxed);
  if (phase == Phase::filled) return true;
  if (phase != Phase::posted || !is_filled(*operation.place)) return false;
  read_result(*operation.place, operation.result);
  operation.phase.store(Phase::filled, std::memory_order_release);
  return true;
}

std::vector<std::unique_ptr<PendingOperation>> Posts::take_read() {
  std::vector<std::unique_ptr<PendingOperation>> read;
  if (kept_.empty()) return read;
  const std::uint32_t completions = header_.completions.load(std::memory_order_acquire);  // as in reap()
  if (std::exchange(looked_completions_, completions) == completions) return read;
  std::erase_if(kept_, [&](std::unique_ptr<PendingOperation>& operation) {
    if (!collect_if_done(*operation)) return false;
    read.push_back(std::move(operation));
    return true;
  });
  return read;
}

bool Posts::reap() {
  // Counted after the slot is done: nothing new is done while the count stands.
  const std::uint32_t completions = header_.completions.load(std::memory_order_acquire);
  if (std::exchange(reaped_completions_, completions) == completions) return false;
  const std::size_t free_before = slots_.free_count();
  const std::size_t overflowed_before = overflow_.unfinished();
  slots_.collect([this](PendingOperation& operation) { collect_if_done(operation); },
                 [this](const SlotRequestBody& told) {
                   if (told.request != static_cast<std::uint16_t>(SlotRequest::forget_group)) return;
                   // Until then service processes may have used the members and the plan's entry.
                   plans_.give_back(PlanNumber{told.plan});
                   arguments_.release(MemoryRange{RegionId{told.members.region}, told.members.address, told.sequence});
                 });
  while (PendingOperation* oldest = overflow_.oldest()) {
    if (!collect_if_done(*oldest)) break;
  }
  return slots_.free_count() != free_before || overflow_.unfinished() != overflowed_before;
}

void Posts::use(const Group& group) {
  if (group.used()) return;
  groups_.enter(group);
  group.mark_used();
}

void Posts::retire(const Group& group) {
  if (!group.used()) {
    plans_.give_back(group.plan());
    return arguments_.release(group.members());
  }
  groups_.retire(group);
  SlotRequestBody body = describe(group, SlotRequest::forget_group);
  body.members = LocalRef{group.members().region.value(), 0, group.members().address};
  body.sequence = group.members().bytes;
  tell(body);
}

std::optional<MemoryRange> Posts::allocate_members(std::uint64_t bytes) {
  const std::optional<MemoryRange> range = arguments_.allocate(bytes);
  return range ? range : reap_and_allocate(bytes, false);
}

PlanNumber Posts::take_plan() {
  const PlanNumber number = plans_.take();
  return number.valid() || !reap() ? number : plans_.take();
}

void Posts::drop(std::unique_ptr<PendingOperation>& operation) {
  if (collect_if_done(*operation)) return;
  if (operation->phase.load(std::memory_order_relaxed) == Phase::filled) {
    return static_cast<void>(kept_.emplace_back(std::move(operation)));
  }
  if (operation->phase.load(std::memory_order_relaxed) == Phase::posted) {
    return static_cast<void>(abandoned_.emplace_back(std::move(operation)));
  }
  std::erase(waiting_, operation.get());
  if (operation->deferred) regions_.release_registrations(operation->deferred->body);
  note_waiting();
}

std::vector<std::unique_ptr<PendingOperation>> Posts::abandon() {
  waiting_.clear();
  tidings_.clear();
  for (std::unique_ptr<PendingOperation>& kept : kept_) abandoned_.push_back(std::move(kept));
  kept_.clear();
  return std::exchange(abandoned_, {});
}

}  // namespace outrigger::client
