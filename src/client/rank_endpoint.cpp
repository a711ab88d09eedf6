#include "client/rank_endpoint.hpp"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "base/futex.hpp"
#include "base/no_cancellation.hpp"
#include "client/operations/completion_watch.hpp"
#include "client/operations/slot_request.hpp"

namespace outrigger::client {
namespace {

using std::chrono::microseconds;

constexpr microseconds kBetweenLooksAtGrowth{20};
// While argument memory grows, the answer comes through the socket, which does not end a sleep.
constexpr microseconds kSleepWhileGrowing{100};
// Kept operations, with staging memory, that peers still have to read. A rank with more of them waits.
constexpr std::size_t kMostKept = 64;
// A service process on a DPU cannot wake this rank.
constexpr microseconds kSleepWithDpu{100};

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

std::string text_in(const SegmentHeader& header) {
  return {header.fatal_text.data(), ::strnlen(header.fatal_text.data(), header.fatal_text.size())};
}

std::string fatal_text(const SegmentHeader& header) {
  std::string text = text_in(header);
  return text.empty() ? "the keeper of this node ended the job without saying why" : text;
}

}  // namespace

RankEndpoint::RankEndpoint(EndpointParts parts)
    : serial_(next_serial()),
      welcome_(parts.welcome),
      probe_(std::move(parts.probe)),
      xpmem_(std::move(parts.xpmem)),
      segment_(std::move(parts.segment)),
      network_(std::move(parts.network)),
      control_(std::move(parts.socket), parts.world_rank, std::move(parts.segment_fd)),
      doorbell_(std::move(parts.doorbell), header(), network_.get()),
      regions_(lock_, control_, network_.get(), segment_.view(), welcome_.reach),
      arguments_(regions_, segment_.view()),
      staging_(lock_, regions_),
      posts_(segment_.view(), regions_, arguments_, doorbell_),
      native_tallies_(lock_, segment_.view()),
      heap_(lock_, regions_),
      lending_(lock_, segment_.view(), doorbell_, welcome_, std::move(parts.lending)),
      calls_(header(), lock_, control_, regions_, doorbell_) {
  const auto base = reinterpret_cast<std::uintptr_t>(segment_.view().base());
  header().rank_base_address.store(base, std::memory_order_release);
  if (network_) calls_.start(*network_);
}

void RankEndpoint::shut_down() noexcept try {
  const NoCancellation whole;
  unwatch_forks(*this);
  std::vector<std::unique_ptr<PendingOperation>> abandoned;  // destroyed without the lock: groups take it
  {
    const Lock lock(lock_.mutex);
    if (lock_.inert.exchange(true)) return;  // a forked child: nothing here is its own
    abandoned = posts_.abandon();
  }
  calls_.stop();
  if (network_ && network_->open()) network_->leave(header());
  regions_.deregister();
  network_.reset();
  lending_.stop();  // copies write to the program's memory and read the segment
  leave();
  xpmem_.reset();
  arguments_.close();
  regions_.close();
  segment_.unmap();
  doorbell_.close();
} catch (...) {
  // No memory. The process ends soon.
}

// Service processes hear of it by the keeper, or, where that has died, see it in the segment.
void RankEndpoint::leave() {
  if (control_.goodbye() || !doorbell_.rings_here()) return;
  header().rank_base_address.store(0, std::memory_order_seq_cst);
  doorbell_.ring();
}

std::shared_ptr<const Group> RankEndpoint::define_group(GroupId id, const std::vector<WorldRank>& members,
                                                        GroupRank me) noexcept try {
  static_assert(sizeof(WorldRank) == sizeof(std::uint32_t));
  if (lock_.is_inert() || members.empty() || members.size() > kMaxGroupSize || me.value() >= members.size())
    return nullptr;
  const std::uint64_t bytes = members.size() * sizeof(WorldRank);
  std::optional<MemoryRange> range;
  {
    const Lock lock(lock_.mutex);
    if (!lock_.is_inert()) range = posts_.allocate_members(bytes);
  }
  if (!range) range = arguments_.allocate_and_wait(bytes);
  if (!range) return nullptr;
  std::memcpy(reinterpret_cast<void*>(range->address), members.data(), bytes);
  Group::Plan plan;
  if (!network_) {  // a DPU cannot see in time how far the rank is
    const Lock lock(lock_.mutex);
    if (!lock_.is_inert()) plan.number = posts_.take_plan();
  }
  if (plan.number.valid()) plan.entry = &steer::plan_entry(segment_.view(), plan.number);
  return std::make_shared<const Group>(shared_from_this(), id, static_cast<std::uint32_t>(members.size()), me, *range,
                                       lock_.inert, plan);
} catch (...) {
  return nullptr;
}

void RankEndpoint::retire_group(const Group& group) noexcept try {
  if (lock_.is_inert()) return;
  Lock lock(lock_.mutex);
  if (lock_.is_inert()) return;
  posts_.retire(group);  // every operation on it is done, or it would still be held
  posts_.post_waiting();
  doorbell_.unlock_and_ring(lock);
} catch (...) {
  // No memory: the service processes keep the group until the end, which is harmless.
}

void RankEndpoint::send(const Group& group, const steer::Notice& notice) noexcept try {
  SlotRequestBody body = describe(group, notice.kind);
  body.collective = notice.collective;
  body.algorithm = notice.algorithm;
  body.sequence = notice.trial;
  body.root = notice.request;
  const bool joins = notice.kind == SlotRequest::join_plan;
  if (joins) {
    body.group_size = group.size();
    body.group_rank = group.me().value();
    body.members = LocalRef{group.members().region.value(), 0, group.members().address};
  }
  Lock lock(lock_.mutex);
  if (lock_.is_inert()) return;
  if (joins) posts_.use(group);
  posts_.tell(body);
  posts_.post_waiting();
  doorbell_.unlock_and_ring(lock);
} catch (...) {
  // No memory: the plan stays as it is.
}

bool RankEndpoint::job_ended() noexcept try {
  return header().fatal.load(std::memory_order_acquire) != 0 || control_.lost().has_value();
} catch (...) {
  return false;
}

// The calls of every operation inline what they call, which costs more to call than to do.
[[gnu::flatten]] void RankEndpoint::look_up(const BufferLayout& layout, std::uint32_t members,
                                            SideMemory& side) noexcept try {
  if (!find_extent(layout, members, side)) return;
  heap_.use(reinterpret_cast<const void*>(side.begin));
  const Lock lock(lock_.mutex);
  const bool found = !lock_.is_inert() && regions_.find(side.begin, side.bytes, side.place);
  if (!found) side.reached = SideMemory::Reached::never;
  side.layout = layout;
  side.members = members;
  side.found_in = found ? regions_.state() : 0;
} catch (...) {
  side = {};
}

const SideMemory& RankEndpoint::use(const BufferLayout& layout, std::uint32_t members, const SideMemory& found,
                                    std::optional<SideMemory>& found_now) {
  if (found.found_in != 0 && found.found_in == regions_.state()) return found;
  SideMemory& now = found_now.emplace();
  if (find_extent(layout, members, now) && !regions_.use(now.begin, now.bytes, now.place)) {
    now.reached = SideMemory::Reached::never;
  }
  return now;
}

[[gnu::flatten]] PendingOperationPtr RankEndpoint::post(const OperationRequest& request,
                                                        PendingOperationPtr rested) noexcept try {
  if (lock_.is_inert() || !request.group || &request.group->owner() != this || !fits_group(request)) return nullptr;
  heap_.see_operation(request.send.base, request.receive.base);
  std::optional<Outdated> outdated;
  PendingOperationPtr operation(rested ? rested.release() : new PendingOperation);
  operation->begin(request.group);
  Lock lock(lock_.mutex);
  if (posts_.kept() != 0 || !heap_.is_followed()) [[unlikely]]
    outdated.emplace(Outdated{heap_.follow(posts_), posts_.take_read()});
  SlotRequestBody& body = posts_.next_request();
  describe(request, body);
  if (posts_.kept() >= kMostKept) body.flags &= ~kSlotKept;
  if (regions_.registers()) body.flags &= ~kSlotTimed;  // a DPU has a clock of its own
  const std::uint32_t members = request.group->size();
  std::optional<SideMemory> send;
  std::optional<SideMemory> receive;
  const BothSides sides{use(request.send, members, request.send_memory, send),
                        use(request.receive, members, request.receive_memory, receive)};
  const bool placed = place(request, sides, body, *operation);
  if (placed) {
    lending_.posted(request, sides.send, sides.receive);
  } else {
    regions_.release_registrations(body);
  }
  const bool growing = placed && arguments_.growing();
  operation->others_have_posted = placed && is_awaited({request.group->id(), request.sequence});
  doorbell_.unlock_and_ring(lock);
  if (outdated) let_go(std::move(*outdated));
  if (!placed) return nullptr;
  operation->staging = request.staging;
  if (growing) wait_for_growth();
  lending_.may_wait(std::max(sides.send.bytes, sides.receive.bytes));
  return operation;
} catch (...) {
  return nullptr;
}

bool RankEndpoint::is_awaited(const OperationId& operation) const {
  return welcome_.core_share == copy::CoreShare::own &&
         header().awaited_post.load(std::memory_order_relaxed) == post_tag(operation);
}

bool RankEndpoint::place(const OperationRequest& request, const BothSides& sides, SlotRequestBody& body,
                         PendingOperation& operation) {
  using Reached = SideMemory::Reached;
  const auto& [send, receive] = sides;
  describe_side(request.send, send, body.send);
  describe_side(request.receive, receive, body.receive);
  if (send.reached == Reached::never || receive.reached == Reached::never) return false;
  if (send.place.in_heap) operation.in_heap[0] = MemoryRange{send.place.region, send.begin, send.bytes};
  if (receive.place.in_heap) operation.in_heap[1] = MemoryRange{receive.place.region, receive.begin, receive.bytes};
  if (send.is_private() || receive.is_private()) body.flags &= ~kSlotKept;  // it goes with this process
  if (request.collective == Collective::ireduce_scatter) {
    body.receive.stride_bytes = static_cast<std::int64_t>(request.part_offset_bytes);
  }
  // A side without bytes needs no extents either, unless they name whom they are for.
  OperationArguments arguments{{{}, request.send_neighbors}, {{}, request.receive_neighbors}};
  const bool named = is_of_neighbors(request.collective);
  if (named || send.reached == Reached::with_bytes) arguments.send.extents = request.send.extents;
  if (named || receive.reached == Reached::with_bytes) arguments.receive.extents = request.receive.extents;
  return posts_.post(operation, body, arguments);
}

// Left on the heap, the operation would wait for the program's next call, which may be a long one into the native MPI.
// The keeper answers in a fraction of a millisecond, and argument memory knows when not to wait any longer.
void RankEndpoint::wait_for_growth() {
  const NoCancellation whole;
  while (true) {
    Lock lock(lock_.mutex);
    posts_.post_waiting();
    const bool growing = arguments_.growing();
    doorbell_.unlock_and_ring(lock);
    if (!growing) return;
    std::this_thread::sleep_for(kBetweenLooksAtGrowth);
  }
}

bool RankEndpoint::poll(PendingOperation& operation) noexcept try {
  const PendingOperation::Phase phase = operation.phase.load(std::memory_order_acquire);
  if (phase == PendingOperation::Phase::done || phase == PendingOperation::Phase::filled) return true;
  if (lock_.is_inert()) return false;
  const auto is_to_collect = [&] { return phase == PendingOperation::Phase::posted && is_filled(*operation.place); };
  if (is_to_collect()) return collect(operation);
  if (network_ && network_->has_work(header())) {
    const Lock lock(lock_.mutex, std::try_to_lock);
    if (lock.owns_lock()) network_->progress();
  }
  // Read before the slot: a completion after this read ends the next sleep.
  CompletionWatch& watch = completion_watch();
  const bool first = watch.endpoint != serial_;
  const std::uint32_t completions = first ? header().completions.load(std::memory_order_acquire) : watch.completions;
  if (is_to_collect()) return collect(operation);
  if (posts_.anything_waits()) {
    Lock lock(lock_.mutex, std::try_to_lock);
    if (lock.owns_lock()) {
      posts_.post_waiting();
      doorbell_.unlock_and_ring(lock);
    }
  }
  if (first) watch = CompletionWatch{serial_, completions};
  return operation.phase.load(std::memory_order_acquire) == PendingOperation::Phase::done;
} catch (...) {
  return false;
}

[[gnu::flatten]] bool RankEndpoint::collect(PendingOperation& operation) {
  Lock lock(lock_.mutex);
  const bool done = posts_.collect_if_filled(operation);
  if (posts_.anything_waits()) posts_.post_waiting();
  doorbell_.unlock_and_ring(lock);
  return done;
}

void RankEndpoint::drop(std::unique_ptr<PendingOperation> operation) noexcept try {
  if (lock_.is_inert()) return;
  {
    const Lock lock(lock_.mutex);
    if (lock_.is_inert()) return;
    posts_.drop(operation);
  }
  if (operation) give_back_staging(operation->staging);
} catch (...) {
  // No memory to remember it by. It is lost with its slot, as it must be: the service process still uses them.
  static_cast<void>(operation.release());
}

void RankEndpoint::rest(PendingOperationPtr& operation) noexcept {
  if (operation->phase.load(std::memory_order_acquire) != PendingOperation::Phase::done) return operation.reset();
  give_back_staging(operation->staging);
  operation->group.reset();
}

void RankEndpoint::give_back_staging(const std::array<void*, 2>& staging) {
  for (void* memory : staging) {
    if (memory != nullptr) staging_.release(memory);
  }
}

// The last operation on a communicator that has been freed ends its group, which takes the lock.
void RankEndpoint::let_go(Outdated outdated) {
  for (Region& region : outdated.regions) regions_.drop(std::move(region));
  for (const std::unique_ptr<PendingOperation>& operation : outdated.read) give_back_staging(operation->staging);
}

void RankEndpoint::wait_for_completion(microseconds at_most, bool helps) noexcept try {
  const NoCancellation whole;
  if (at_most.count() <= 0) return;
  if (lock_.is_inert()) {
    std::this_thread::sleep_for(at_most);
    return;
  }
  CompletionWatch& watch = completion_watch();
  SegmentHeader& shared = header();
  const std::uint32_t known =
      watch.endpoint == serial_ ? watch.completions : shared.completions.load(std::memory_order_acquire);
  watch.endpoint = 0;
  if (posts_.anything_waits()) {
    Lock lock(lock_.mutex);
    posts_.post_waiting();
    if (posts_.waits_for_growth()) at_most = std::min(at_most, kSleepWhileGrowing);
    doorbell_.unlock_and_ring(lock);
  }
  if (network_ && network_->open()) at_most = std::min(at_most, kSleepWithDpu);
  // The service process counts the completion, or asks for help, and then looks whether somebody sleeps; here it is the
  // other way round.
  shared.rank_sleeping.fetch_add(1, std::memory_order_seq_cst);
  if (shared.completions.load(std::memory_order_seq_cst) == known && !(helps && lending_.wants_help())) {
    futex_wait(shared.completions, known, at_most);
  }
  shared.rank_sleeping.fetch_sub(1, std::memory_order_seq_cst);
} catch (...) {
  // No memory for what waits: it is tried again.
}

std::optional<std::string> RankEndpoint::fatal() noexcept try {
  if (lock_.is_inert()) return std::nullopt;
  const SegmentHeader& shared = header();
  if (shared.fatal.load(std::memory_order_acquire) != 0) return fatal_text(shared);
  std::optional<std::string> lost = control_.lost();
  // The keeper writes its reason before it closes the connection.
  if (lost && shared.fatal.load(std::memory_order_acquire) != 0) return fatal_text(shared);
  return lost;
} catch (...) {
  return std::nullopt;  // no memory for the text: the next look has it
}

bool RankEndpoint::fatal_was_said() const {
  return !lock_.is_inert() &&
         header().fatal.load(std::memory_order_acquire) == static_cast<std::uint32_t>(FatalState::said);
}

ClientStatistics RankEndpoint::statistics() const {
  ClientStatistics statistics{
      lending_.helped_bytes(), lending_.spare_bytes(), lending_.huge_bytes(), 0, 0, 0, 0, {}, {}};
  if (lock_.is_inert()) return statistics;
  statistics.service_ran_ns = header().service_ran_ns.load(std::memory_order_relaxed);
  statistics.service_waited_ns = header().service_waited_ns.load(std::memory_order_relaxed);
  statistics.service_restarts = header().service_restarts.load(std::memory_order_relaxed);
  if (header().warned.load(std::memory_order_acquire) != 0) statistics.service_warning = text_in(header());
  statistics.service_other_job = header().service_other_job.load(std::memory_order_relaxed);
  const std::uint32_t count = header().wire_route_count.load(std::memory_order_acquire);
  const auto first = header().wire_routes.begin();
  statistics.wire_routes.assign(first, first + std::min(count, kMaxWireRoutes));
  return statistics;
}

ClientUsage RankEndpoint::usage() {
  Lock lock(lock_.mutex);
  if (lock_.is_inert()) return {};
  std::vector<std::unique_ptr<PendingOperation>> read = posts_.take_read();
  posts_.reap();
  posts_.post_waiting();
  doorbell_.unlock_and_ring(lock);
  let_go({{}, std::move(read)});
  lock.lock();
  return {posts_.slots_in_use(),     posts_.without_slot(),   posts_.kept(),
          arguments_.bytes_in_use(), staging_.bytes_in_use(), regions_.count()};
}

void RankEndpoint::before_fork() {
  lock_.mutex.lock();
  if (!lock_.is_inert()) heap_.hold_at_fork(posts_);
}

void RankEndpoint::after_fork_in_child() {
  lock_.inert.store(true, std::memory_order_release);
  lending_.forget_in_child();
  calls_.forget();
  regions_.abandon_in_child();
  if (network_) network_->abandon();
  xpmem_.forget();
  control_.close_in_child();
  doorbell_.close();
  segment_.forget();
  lock_.mutex.unlock();
}

void PendingOperationDeleter::operator()(PendingOperation* operation) const {
  std::unique_ptr<PendingOperation> dropped(operation);
  if (operation->group) operation->group->owner().drop(std::move(dropped));
}

}  // namespace outrigger::client
