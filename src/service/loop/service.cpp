#include "service/loop/service.hpp"

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>
#include <variant>

#include "copy/policy.hpp"
#include "fabric/host/lanes/cma.hpp"
#include "fabric/host/lanes/xpmem.hpp"
#include "service/keeper/topology.hpp"
#include "service/log.hpp"
#include "service/loop/fatal.hpp"
#include "service/loop/job_protest.hpp"
#include "service/loop/scheduling.hpp"
#include "service/loop/slot_decoder.hpp"
#include "service/loop/transports.hpp"

namespace outrigger::service {
namespace {

constexpr std::uint32_t kPostsPerTurn = 64;     // of one rank, before the next one's turn
constexpr std::uint32_t kMessagesPerTurn = 64;  // of one peer
constexpr std::uint32_t kTurnsPerClock = 16;    // turns between looks at the clock
constexpr std::chrono::microseconds kControlInterval{200};
constexpr std::chrono::microseconds kSpinOnFreeCore{5000};
constexpr std::chrono::microseconds kSpinOnSharedCore{50};
constexpr int kRetryMessagesMs = 1;  // while a peer's ring is full: nobody tells us when it has room
constexpr int kNoTimeout = -1;
constexpr int kLookAtRanksMs = 250;                  // of a DPU: a doorbell that is lost on the way costs so much
constexpr unsigned kAttachPauseUs = 20;              // between turns while ranks of a DPU are attached
constexpr std::chrono::seconds kPeersInterval{1};    // between looks at the signs of life of other nodes
constexpr std::uint32_t kPeerTurnsAfterPost = 8;     // so many: more than make a silent one a lost one
constexpr std::chrono::milliseconds kFarewell{300};  // for the last messages to other nodes

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void watch(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  (void)::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

}  // namespace

Service::Service(UniqueFd control) : control_(std::move(control)), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  watch(epoll_.get(), control_.fd());
}

Service::~Service() = default;

int Service::run() {
  while (!ended_) {
    bool worked = turn();
    if (!misbehaved_.empty()) {
      for (const WorldRank rank : std::exchange(misbehaved_, {})) remove_rank(rank);
      worked = true;  // peers' parts may have ended with it: not to sleep on that
    }
    if (worked) {
      idle_ = false;
      if (dpu_) dpu_->wake_up();
    } else if (core_is_wanted()) {
      wait_for_something();
      continue;
    } else {
      // Nor does a core that no rank of this job uses belong to us alone: another job's may have found it free as well.
      yield_ || turns_ % kTurnsPerClock == 0 ? static_cast<void>(::sched_yield()) : relax();
    }
    if (++turns_ % kTurnsPerClock == 0 || !engine_) rest(Clock::now());
  }
  leave_wire();
  return exit_status_;
}

bool Service::turn() {
  if (!engine_) {
    const bool reached = dpu_ && dpu_->progress();
    return (wire_ && wire_->progress()) || reached;
  }
  bool worked = !fabric_.backlogged() && !(wire_ && wire_->backlogged()) && take_posts();
  worked |= take_messages();
  if (wire_) worked |= take_wire_messages();
  worked |= engine_->run();
  worked |= fabric_.progress();
  if (dpu_) worked |= dpu_->progress();
  if (wire_) {
    worked |= wire_->progress();
    if (wire_->routes().size() != routes_told_) tell_routes();
  }
  return worked;
}

void Service::tell_routes() {
  for (; routes_told_ < wire_->routes().size(); ++routes_told_) {
    const WireRoute& route = wire_->routes()[routes_told_];
    spdlog::info("wire: {}", text_of(route));
    if (routes_told_ >= kMaxWireRoutes) continue;
    for (const ServedRank& served : served_) {
      SegmentHeader& header = served.segment.header();
      header.wire_routes[routes_told_] = route;
      header.wire_route_count.store(static_cast<std::uint32_t>(routes_told_ + 1), std::memory_order_release);
      if (dpu_) dpu_->publish_route(served.rank, routes_told_);
    }
  }
}

// Control messages now and then; sleep after a while without work.
void Service::rest(Clock::time_point now) {
  if (dpu_) look_after_ranks(now);
  if (!engine_) {
    if (!dpu_) return sleep();
    (void)read_control();
    ::usleep(kAttachPauseUs);
    return;
  }
  look_after_peers(now);
  if (now - control_read_ > kControlInterval) {
    control_read_ = now;
    if (read_control()) {
      idle_ = false;  // what it said may have left work for the engine
      return;
    }
  }
  if (!idle_) {
    idle_ = true;  // until the next turn that works
    idle_since_ = now;
  } else if (now - idle_since_ > spin() && (!dpu_ || dpu_->may_sleep())) {
    sleep();
    if (dpu_) dpu_->wake_up();
    idle_ = fabric_.messages_waiting();  // a peer that does not read is no reason to poll
  }
}

// Other nodes' signs of life count while something is open, and for a while after: with all its own done, a rank here
// may wait by the MPI's means for one that waits for us, and the link between them is cut.
void Service::look_after_peers(Clock::time_point now) {
  if (!wire_ || now - peers_seen_ < kPeersInterval) return;
  peers_seen_ = now;
  if (engine_->open_operations() != 0 || wire_->moves_in_flight() != 0) peer_turns_left_ = kPeerTurnsAfterPost;
  wire_->tick(peer_turns_left_ != 0);
  if (peer_turns_left_ != 0) --peer_turns_left_;
  if (wire_->failure()) fail(*wire_->failure(), kOtherNode);
}

int Service::sleep_timeout_ms() const {
  if (fabric_.messages_waiting()) return kRetryMessagesMs;
  if (const auto patience = fabric_.patience_left()) {
    return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(*patience).count());
  }
  if (wire_ && engine_ && (engine_->open_operations() != 0 || peer_turns_left_ != 0)) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(peers_seen_ + kPeersInterval - Clock::now());
    return static_cast<int>(std::max<std::chrono::milliseconds::rep>(left.count(), 0));
  }
  if (dpu_) return kLookAtRanksMs;
  return kNoTimeout;
}

bool Service::ranks_wait() const {
  return !served_.empty() && std::ranges::all_of(served_, [](const ServedRank& served) {
    return served.segment.header().rank_sleeping.load(std::memory_order_relaxed) != 0;
  });
}

std::chrono::microseconds Service::spin() const {
  return yield_ && configuration_->spin_us == 0 && ranks_wait() ? kSpinOnFreeCore : spin_;
}

bool Service::core_is_wanted() const {
  return yield_ && engine_ && configuration_->spin_us == 0 && !fabric_.messages_waiting() && !ranks_wait();
}

void Service::wait_for_something() {
  const Clock::time_point now = Clock::now();
  look_after_peers(now);
  sleep(wire_ ? pace_.pause(now, wire_->bytes_moved(), wire_->bytes_under_way()) : std::chrono::microseconds{0});
}

void Service::sleep_for(std::chrono::microseconds pause) const {
  std::array<pollfd, 2> awaited{pollfd{control_.fd(), POLLIN, 0}, pollfd{doorbell_.get(), POLLIN, 0}};
  const timespec limit{0, std::chrono::nanoseconds(pause).count()};
  (void)::ppoll(awaited.data(), awaited.size(), &limit, nullptr);
}

void Service::sleep(std::chrono::microseconds pause) {
  announce_sleep(true);
  if (pause.count() != 0) {
    if (!anything_pending()) sleep_for(pause);
  } else if (!anything_pending() && (!wire_ || wire_->arm()) && (!dpu_ || dpu_->arm())) {
    std::array<epoll_event, 4> events{};
    (void)::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), sleep_timeout_ms());
    std::uint64_t count = 0;
    if (doorbell_.valid()) {
      [[maybe_unused]] const ssize_t drained = ::read(doorbell_.get(), &count, sizeof(count));
    }
  }
  announce_sleep(false);
  (void)read_control();
  control_read_ = Clock::now();
}

void Service::announce_sleep(bool sleeping) {
  for (const ServedRank& served : served_) {
    if (dpu_) break;  // told by then
    served.segment.header().service_sleeping.store(sleeping ? 1 : 0, std::memory_order_seq_cst);
  }
  for (InboundPeer& peer : peers_) peer.ring.set_sleeping(sleeping);
}

bool Service::anything_pending() const {
  if (!engine_) return false;
  if (fabric_.anything_to_do() || (dpu_ && dpu_->moves_in_flight() != 0)) return true;
  for (const ServedRank& served : served_) {
    if (fabric_.backlogged()) break;  // what is posted has to wait
    const SegmentHeader& header = served.segment.header();
    if (header.ring_tail.load(std::memory_order_seq_cst) != served.head) return true;
    if (header.overflow_tail.load(std::memory_order_seq_cst) != served.overflow_taken) return true;
  }
  return std::any_of(peers_.begin(), peers_.end(), [](const InboundPeer& peer) { return !peer.ring.empty(); });
}

bool Service::take_posts() {
  bool any = false;
  for (ServedRank& served : served_) any |= take_posts_of(served);
  return any;
}

bool Service::take_posts_of(ServedRank& served) {
  SegmentHeader& header = served.segment.header();
  const std::uint32_t posted = header.ring_tail.load(std::memory_order_acquire) - served.head;
  if (posted == 0) return take_overflow_of(served);
  peer_turns_left_ = kPeerTurnsAfterPost;
  if (posted > kSlotCount) {
    protest(served.rank, "its post ring says that " + std::to_string(posted) + " slots are posted");
    return false;
  }
  for (std::uint32_t i = 0; i < std::min(posted, kPostsPerTurn); ++i) {
    const SlotIndex slot{served.segment.ring_entry(served.head).load(std::memory_order_relaxed)};
    ++served.head;
    header.ring_head.store(served.head, std::memory_order_release);
    if (!fabric_.open_slot(served.rank, slot)) {
      protest(served.rank, "it posted slot " + std::to_string(slot.value()) + ", which is in use or does not exist");
      return false;
    }
    SlotRequestBody body;
    std::memcpy(&body, &served.segment.slot(slot).body, sizeof(body));
    take_slot(served, slot, body);
  }
  return true;
}

bool Service::take_overflow_of(ServedRank& served) {
  SegmentHeader& header = served.segment.header();
  const std::uint32_t appended = header.overflow_tail.load(std::memory_order_acquire) - served.overflow_taken;
  if (appended == 0) return false;
  if (header.ring_tail.load(std::memory_order_acquire) != served.head) return true;  // that was posted before
  peer_turns_left_ = kPeerTurnsAfterPost;
  for (std::uint32_t i = 0; i < std::min(appended, kPostsPerTurn); ++i) {
    const std::optional<LocalRef> ref = next_record(served);
    const std::optional<SlotIndex> slot = ref ? fabric_.open_record(served.rank, *ref) : std::nullopt;
    if (!slot) {
      protest(served.rank, "its overflow record " + std::to_string(served.overflow_taken) +
                               " is in use or not in its shared memory");
      return false;
    }
    OverflowRecord record;
    const std::byte* shared =
        fabric_.rank(served.rank)->mapped(RegionId{ref->region}, ref->address, sizeof(OverflowRecord));
    std::memcpy(&record.operation.body, shared + offsetof(OverflowRecord, operation.body), sizeof(SlotRequestBody));
    std::memcpy(&record.number, shared + offsetof(OverflowRecord, number), sizeof(record.number));
    if (record.number != served.overflow_taken) {
      protest(served.rank, "its overflow records are not in order");
      return false;
    }
    served.last_record = ref;
    header.overflow_taken.store(++served.overflow_taken, std::memory_order_release);
    take_slot(served, *slot, record.operation.body);
  }
  return true;
}

std::optional<LocalRef> Service::next_record(const ServedRank& served) {
  const SegmentHeader& header = served.segment.header();
  LocalRef next;
  if (!served.last_record) {
    next.region = header.overflow_first_region.load(std::memory_order_acquire);
    next.address = header.overflow_first_address.load(std::memory_order_relaxed);
    return next;
  }
  const std::byte* last =
      fabric_.rank(served.rank)
          ->mapped(RegionId{served.last_record->region}, served.last_record->address, sizeof(OverflowRecord));
  if (last == nullptr) return std::nullopt;
  std::memcpy(&next, last + offsetof(OverflowRecord, next), sizeof(next));
  return next;
}

void Service::take_slot(const ServedRank& served, SlotIndex slot, const SlotRequestBody& body) {
  Result<DecodedSlot> decoded =
      decode_slot(body, served.rank, slot, *fabric_.rank(served.rank), configuration_->world_size, *groups_);
  fabric::CompletionRecord record;
  if (!decoded) {
    spdlog::warn("rank {}, slot {}: rejected: {}", served.rank.value(), slot.value(), decoded.error());
    const GroupId group{body.group_high, body.group_low};
    if (body.request == static_cast<std::uint16_t>(SlotRequest::operation) && groups_->uses(served.rank, group)) {
      // The engine rejects it and tells the others of the group, who would wait for ever.
      engine::PostedOperation unusable;
      unusable.rank = served.rank;
      unusable.slot = slot;
      unusable.id = OperationId{group, body.sequence};
      engine_->post(std::move(unusable));
      return;
    }
    record.status = CompletionStatus::rejected;
    node_fabric().complete(served.rank, slot, record);
    return;
  }
  if (const auto* forget = std::get_if<ForgetGroup>(&decoded.value())) {
    engine_->forget_group(served.rank, forget->group);
    groups_->forget(served.rank, forget->group);
    node_fabric().complete(served.rank, slot, record);
    return;
  }
  fabric_.set_marks(served.rank, slot, body.marks, body.group_size);
  engine_->post(std::get<engine::PostedOperation>(std::move(decoded).value()));
}

bool Service::take_messages() {
  bool any = false;
  for (InboundPeer& peer : peers_) {
    for (std::uint32_t i = 0; i < kMessagesPerTurn; ++i) {
      const ByteRingReader::Event event = peer.ring.read(message_);
      if (event == ByteRingReader::Event::empty) break;
      if (event == ByteRingReader::Event::broken || !engine_->receive(SpId{first_sp_ + peer.sp.value()}, message_)) {
        fail("service process " + std::to_string(peer.sp.value()) + " sent a malformed message");
        return any;
      }
      any = true;
    }
  }
  return any;
}

bool Service::take_wire_messages() {
  bool any = false;
  SpId from;
  while (wire_->receive(from, message_)) {
    if (!engine_->receive(from, message_)) {
      fail("service process " + std::to_string(from.value()) + " of another node sent a malformed message");
      return true;
    }
    any = true;
  }
  return any;
}

bool Service::read_control() {
  bool any = false;
  while (!ended_) {
    ControlSocket::Received received = control_.receive(0);
    switch (received.event) {
      case ControlSocket::Event::nothing: return any;
      case ControlSocket::Event::closed: keeper_lost(); return any;
      case ControlSocket::Event::malformed: fail("malformed message from the keeper: " + received.problem); return any;
      case ControlSocket::Event::message: handle(*received.message);
    }
    any = true;
  }
  return any;
}

void Service::handle(ControlMessage& message) {
  if (!configuration_ && message.kind() != ControlKind::configure) return fail("the keeper did not configure first");
  switch (message.kind()) {
    case ControlKind::configure: return configure(message.body<ConfigureBody>());
    case ControlKind::peer_ring: return add_peer(message.body<PeerRingBody>(), message.fds());
    case ControlKind::rank_joined: return add_rank(message.body<RankJoinedBody>(), message.fds());
    case ControlKind::rank_remote: return add_remote_rank(message.body<RankRemoteBody>(), message.fds()[0]);
    case ControlKind::doorbell: doorbell_ = std::move(message.fds()[0]); return watch(epoll_.get(), doorbell_.get());
    case ControlKind::job_map: return take_job_map(message.body<SharedBytesBody>(), message.fds()[0]);
    case ControlKind::rank_left: return remove_rank(WorldRank{message.body<RankBody>().world_rank});
    case ControlKind::region_add: return add_region(message.body<RegionBody>(), message.fds());
    case ControlKind::region_drop: {
      const auto body = message.body<RegionBody>();
      if (fabric::RankMemory* memory = fabric_.rank(WorldRank{body.world_rank})) {
        memory->drop_region(RegionId{body.region});
      }
      return;
    }
    default: return fail("unexpected message from the keeper");
  }
}

void Service::configure(const ConfigureBody& body) {
  configuration_ = body;
  groups_.emplace(body.world_size);
  sp_of_rank_.resize(body.world_size);
  yield_ = body.core_share != copy::CoreShare::own;
  spin_ = yield_ ? kSpinOnSharedCore : kSpinOnFreeCore;
  if (body.spin_us != 0) spin_ = std::chrono::microseconds(body.spin_us);
  fabric_.share_core(body.core_share);
  fabric_.set_cache_bytes(body.cache_bytes);
  if (yield_) ask_for_short_slices();
  if (body.elsewhere != 0) open_dpu();
  if (body.nodes > 1 && !ended_) open_wire();
  if (body.cpu < 0) return;
  const Status bound = bind_thread_to_cpu(body.cpu);
  if (!bound) spdlog::warn("{}", bound.error());  // slower, not wrong
}

fabric::Fabric& Service::node_fabric() {
  if (dpu_) return *dpu_;
  return fabric_;
}

fabric::NodeMemory& Service::node_memory() {
  if (dpu_) return *dpu_;
  return fabric_;
}

void Service::open_dpu() {
  fabric::dpu::DpuOptions options;
  options.transports = allowed_transports(*configuration_);
  options.attach_limit = std::chrono::milliseconds(configuration_->attach_limit_ms);
  options.alias = (configuration_->reach_allowed & kReachAlias) != 0;
  Result<std::unique_ptr<fabric::dpu::DpuFabric>> opened =
      fabric::dpu::DpuFabric::open(options, fabric_, configuration_->sp, configuration_->world_size);
  if (!opened) return fail(opened.error());
  dpu_ = std::move(opened).value();
  watch(epoll_.get(), dpu_->event_fd());
}

void Service::add_remote_rank(const RankRemoteBody& body, const UniqueFd& fd) {
  const WorldRank rank{body.world_rank};
  if (!dpu_ || body.world_rank >= configuration_->world_size || sp_of_rank_[body.world_rank]) {
    return fail("the keeper named rank " + std::to_string(body.world_rank) + " wrongly");
  }
  const bool serves = body.sp == configuration_->sp;
  Result<std::vector<std::byte>> bytes = read_shared_bytes(fd.get(), body.bytes, kMaxRankAddressBytes);
  const Result<RankAddress> address =
      bytes ? decode_rank_address(bytes.value()) : Result<RankAddress>(Error{bytes.error()});
  const Status added = address ? dpu_->add_rank(rank, serves, address.value()) : Status(Error{address.error()});
  if (!added) return take_attached({fabric::dpu::DpuFabric::Attached::What::failed, rank, added.error()});
  if (serves) served_.push_back(ServedRank{rank, fabric_.rank(rank)->segment(), 0});
  sp_of_rank_[body.world_rank] = SpId{body.sp};
  ++ranks_known_;
  start_engine_when_complete();
}

void Service::look_after_ranks(Clock::time_point now) {
  if (const auto rank = dpu_->unreachable_rank(now)) {
    return fail("the connection to rank " + std::to_string(rank->value()) + " broke (" + dpu_->lanes() + ")");
  }
  dpu_->look_after_attaching(now);
  while (const auto attached = dpu_->next_attached()) take_attached(*attached);
}

void Service::take_attached(const fabric::dpu::DpuFabric::Attached& attached) {
  using What = fabric::dpu::DpuFabric::Attached::What;
  bool sent = true;
  if (attached.what == What::reached) {
    const bool alias = (attached.reach & kReachAlias) != 0;
    spdlog::info("rank {}: reached, {}", attached.rank.value(), alias ? "moved by exported handles" : "staged");
    sent = control_.send(ControlKind::rank_attached, RankAttachedBody{attached.rank.value(), attached.reach});
  } else {
    RankWiredBody body;
    body.world_rank = attached.rank.value();
    body.ok = attached.what == What::wired ? 1 : 0;
    std::copy_n(attached.reason.begin(), std::min(attached.reason.size(), kReasonBytes - 1), body.reason.begin());
    sent = control_.send(ControlKind::rank_wired, body);
  }
  if (!sent) keeper_lost();
}

void Service::open_wire() {
  fabric::ucx::WireOptions options;
  options.transports = allowed_transports(*configuration_);
  Result<std::unique_ptr<fabric::ucx::Wire>> opened = fabric::ucx::Wire::open(options, node_memory());
  if (!opened) return fail(opened.error());
  wire_ = std::move(opened).value();
  for (const int fd : wire_->event_fds()) watch(epoll_.get(), fd);
  const std::vector<std::byte> address = wire_->address();
  const Result<UniqueFd> shared = share_bytes("outrigger-address", address);
  if (!shared) return fail(shared.error());
  const int fd = shared.value().get();
  const SharedBytesBody body{address.size(), 0, 0};
  if (!control_.send(ControlKind::wire_address, body, std::span(&fd, 1))) keeper_lost();
}

// Does the job map say of this node what its keeper has said?
Status Service::fits_this_node(const JobMap& job_map, std::uint32_t node) const {
  const Error wrong{"the job map says something else of this node than its keeper"};
  if (node >= job_map.nodes.size() || job_map.nodes[node].addresses.size() != configuration_->sp_count ||
      job_map.nodes[node].ranks.size() != ranks_known_) {
    return wrong;
  }
  for (std::size_t rank = 0; rank < sp_of_rank_.size(); ++rank) {
    if (!sp_of_rank_[rank]) continue;
    if (job_map.sp_of_rank[rank].value() != job_map.first_sp[node] + sp_of_rank_[rank]->value()) return wrong;
  }
  return Done{};
}

void Service::take_job_map(const SharedBytesBody& body, const UniqueFd& fd) {
  JobMapTakenBody answer;
  const auto take = [&]() -> Status {
    if (!wire_ || job_map_) return Error{"a job map that was not expected"};
    Result<std::vector<std::byte>> bytes = read_shared_bytes(fd.get(), body.bytes, kMaxJobMapBytes);
    if (!bytes) return Error{bytes.error()};
    Result<JobMap> job_map = decode_job_map(bytes.value(), configuration_->world_size);
    if (!job_map) return Error{job_map.error()};
    if (Status fits = fits_this_node(job_map.value(), body.node); !fits) return fits;
    first_sp_ = job_map.value().first_sp[body.node];
    const SpId self{first_sp_ + configuration_->sp};
    if (Status introduced = wire_->introduce(job_map.value(), self); !introduced) return introduced;
    job_map_ = std::move(job_map).value();
    cluster_.emplace(node_fabric(), *wire_, *job_map_, self);
    start_engine_when_complete();
    if (!engine_) return Error{"the job map came before the ranks of this node"};
    return Done{};
  };
  const Status taken = take();
  answer.ok = taken ? 1 : 0;
  if (!taken)
    std::copy_n(taken.error().begin(), std::min(taken.error().size(), kReasonBytes - 1), answer.reason.begin());
  if (!control_.send(ControlKind::job_map_taken, answer)) keeper_lost();
}

void Service::add_peer(const PeerRingBody& body, std::vector<UniqueFd>& fds) {
  Result<Mapping> outbound = Mapping::map(fds[0].get(), byte_ring_bytes());
  Result<Mapping> inbound = Mapping::map(fds[1].get(), byte_ring_bytes());
  if (!outbound || !inbound) return fail(outbound ? inbound.error() : outbound.error());
  if (!valid_byte_ring(outbound.value().base()) || !valid_byte_ring(inbound.value().base())) {
    return fail("the ring to service process " + std::to_string(body.sp) + " is not one");
  }
  fabric_.add_peer(SpId{body.sp}, std::move(outbound).value(), std::move(fds[2]));
  ByteRingReader reader(inbound.value().base());
  peers_.push_back(InboundPeer{SpId{body.sp}, std::move(inbound).value(), reader});
}

void Service::add_rank(const RankJoinedBody& body, std::vector<UniqueFd>& fds) {
  const WorldRank rank{body.world_rank};
  if (body.world_rank >= configuration_->world_size || sp_of_rank_[body.world_rank]) {
    return fail("the keeper named rank " + std::to_string(body.world_rank) + " wrongly");
  }
  Result<Mapping> segment = Mapping::map(fds[0].get(), SegmentView::segment_bytes());
  if (!segment) return fail(segment.error());
  const SegmentView view(segment.value().base());
  if (!view.valid_for(rank)) return fail("the segment of rank " + std::to_string(rank.value()) + " is not one");
  std::uint32_t reach = probe_reach(body);
  fabric_.add_rank(rank, fabric::RankMemory(body.pid, std::move(segment).value(), (reach & kReachCma) != 0));
  fabric::RankMemory& memory = *fabric_.rank(rank);
  memory.set_probe(body.probe_address);
  if ((reach & kReachCma) != 0) {
    std::unique_ptr<fabric::XpmemWindows> windows = probe_windows(body);
    if (windows) reach |= kReachXpmem;
    memory.set_windows(std::move(windows));
  }
  if (body.sp == configuration_->sp) {
    if ((reach & kReachCopier) != 0) fabric_.expect_copier(rank);
    if (!doorbell_.valid()) {
      doorbell_ = std::move(fds[1]);
      watch(epoll_.get(), doorbell_.get());
    }
    served_.push_back(ServedRank{rank, view, view.header().ring_head.load(std::memory_order_relaxed)});
  }
  sp_of_rank_[body.world_rank] = SpId{body.sp};
  ++ranks_known_;
  start_engine_when_complete();
  if (!control_.send(ControlKind::rank_attached, RankAttachedBody{body.world_rank, reach})) keeper_lost();
}

std::uint32_t Service::probe_reach(const RankJoinedBody& body) const {
  std::uint32_t reach = configuration_->reach_allowed & kReachMapped;
  if ((configuration_->reach_allowed & kReachCma) == 0) return reach;
  std::uint64_t word = 0;
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(&word, 1));
  const auto status = fabric::read_from_process(body.pid, body.probe_address, bytes);
  // Every service process of the node adds one, in any order.
  if (status != fabric::MoveStatus::ok || word - body.probe_value > configuration_->sp_count) return reach;
  ++word;
  if (fabric::write_to_process(body.pid, body.probe_address, bytes) != fabric::MoveStatus::ok) return reach;
  reach |= kReachCma;
  const bool lent = copy::lenders_with(configuration_->core_share) != copy::Lenders::none;
  if (lent) reach |= configuration_->reach_allowed & kReachCopier;
  return reach;
}

std::unique_ptr<fabric::XpmemWindows> Service::probe_windows(const RankJoinedBody& body) const {
  const bool offered = (configuration_->reach_allowed & kReachXpmem) != 0 && body.xpmem_segment != kNoXpmemSegment;
  const XpmemCalls* calls = offered ? xpmem_calls() : nullptr;
  const std::unique_ptr<fabric::XpmemWindows> windows =
      calls != nullptr ? fabric::XpmemWindows::open(*calls, body.xpmem_segment) : nullptr;
  if (!windows) return nullptr;
  // It must be the memory that has been probed.
  std::uint64_t word = 0;
  const std::byte* ours = windows->at(body.probe_address, sizeof(word));
  const bool read = ours != nullptr && fabric::copy_guarded(reinterpret_cast<std::byte*>(&word), ours, sizeof(word));
  // Another one for use: what was attached for the probe would stay for nothing.
  if (read && word - body.probe_value - 1 < configuration_->sp_count) {
    return fabric::XpmemWindows::open(*calls, body.xpmem_segment);
  }
  spdlog::warn("rank {}: XPMEM does not reach its memory", body.world_rank);
  return nullptr;
}

void Service::start_engine_when_complete() {
  const bool many_nodes = configuration_->nodes > 1;
  if (ranks_known_ != (many_nodes ? configuration_->local_size : configuration_->world_size)) return;
  if (many_nodes && !job_map_) return;
  engine::EngineConfig config;
  config.self = SpId{first_sp_ + configuration_->sp};
  config.epoch = Epoch{configuration_->epoch};
  if (many_nodes) {
    config.sp_of_rank = job_map_->sp_of_rank;
    for (std::uint32_t sp = 0; sp < job_map_->sp_count; ++sp) config.node_of_sp.push_back(job_map_->node_of(SpId{sp}));
  } else {
    for (const auto& sp : sp_of_rank_) config.sp_of_rank.push_back(*sp);
    config.node_of_sp.assign(configuration_->sp_count, 0);
  }
  if (configuration_->window_moves != 0) config.limits.window_moves = configuration_->window_moves;
  static_assert(engine::EngineLimits{}.message_bytes <= kByteRingMaxMessage);
  engine_ = many_nodes ? std::make_unique<engine::Engine>(std::move(config), *cluster_)
                       : std::make_unique<engine::Engine>(std::move(config), node_fabric());
}

void Service::add_region(const RegionBody& body, std::vector<UniqueFd>& fds) {
  RegionAddedBody answer{body.world_rank, body.region, 0, 0};
  fabric::RankMemory* memory = fabric_.rank(WorldRank{body.world_rank});
  if (memory != nullptr && memory->regions() < kMaxRegionsPerRank) {
    Status added = check_sealed_memory(fds[0].get(), body.bytes);
    if (added) {
      Result<Mapping> mapping = Mapping::map(fds[0].get(), body.bytes);
      added = mapping ? memory->add_region(RegionId{body.region}, body.base, std::move(mapping).value())
                      : Status(Error{mapping.error()});
    }
    answer.ok = added ? 1 : 0;
    if (!added) spdlog::warn("rank {}, region {}: {}", body.world_rank, body.region, added.error());
  }
  if (!control_.send(ControlKind::region_added, answer)) keeper_lost();
}

void Service::remove_rank(WorldRank rank) {
  if (engine_) engine_->drop_rank(rank);
  if (groups_) groups_->forget_rank(rank);
  if (dpu_) dpu_->drop_rank(rank);
  fabric_.drop_rank(rank);
  std::erase_if(served_, [&](const ServedRank& served) { return served.rank == rank; });
}

void Service::protest(WorldRank rank, const std::string& reason) {
  spdlog::error("rank {}: {}", rank.value(), reason);
  misbehaved_.push_back(rank);
  if (!control_.send(ControlKind::protest, make_protest(rank.value(), reason))) keeper_lost();
}

void Service::fail(const std::string& reason, std::uint32_t about) {
  if (ended_) return;
  spdlog::critical("{}", reason);
  (void)control_.send(ControlKind::protest, make_protest(about, reason));
  ended_ = true;
  exit_status_ = 1;
}

// The others must not take the end of a job that ended well for the loss of a node.
void Service::leave_wire() {
  if (!wire_ || !job_map_ || exit_status_ != 0) return;
  const Clock::time_point deadline = Clock::now() + kFarewell;
  wire_->say_goodbye(node_lost_ ? fabric::ucx::Wire::Farewell::node_lost : fabric::ucx::Wire::Farewell::in_order);
  while (!wire_->all_sent() && Clock::now() < deadline) (void)wire_->progress();
}

void Service::keeper_lost() {
  if (ended_) return;
  // On a DPU this is how a host that has lost its power or its cable ends: with ranks that have not left.
  node_lost_ = dpu_ && !served_.empty();
  for (const ServedRank& served : served_) {
    if (dpu_) break;  // the host's keeper has done so, or nobody can
    write_fatal(served.segment, "outrigger: the keeper of this node is gone (killed?); the job cannot go on",
                FatalState::unsaid);
  }
  ended_ = true;
}

}  // namespace outrigger::service
