#include "service/loop/wiring.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <span>
#include <string>
#include <utility>

#include "copy/policy.hpp"
#include "protocol/options/transports.hpp"
#include "protocol/shared/byte_ring.hpp"
#include "service/loop/faults.hpp"
#include "service/loop/rank_reach.hpp"
#include "service/loop/scheduling.hpp"
#include "service/notices/fatal.hpp"
#include "service/notices/log.hpp"
#include "service/placement/cores.hpp"

namespace outrigger::service {
namespace {

using fabric::ucx::Wire;

// Turns of this process, about a tenth of a millisecond each: none is counted while the whole job is suspended.
constexpr std::uint32_t kMostLooksForRest = 500'000;
constexpr std::chrono::milliseconds kUntilProcessEnds{1000};
constexpr std::chrono::milliseconds kLastMessagesLimit{300};  // for the last messages to other nodes

// The memory of a process that dies is gone shortly before the process is.
bool ends(pid_t pid) {
  const UniqueFd exit_event(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!exit_event.valid()) return errno == ESRCH;
  pollfd ended{exit_event.get(), POLLIN, 0};
  return ::poll(&ended, 1, static_cast<int>(kUntilProcessEnds.count())) > 0;
}

// Copies as much as there is room for.
void set_reason(std::array<char, kReasonBytes>& to, const std::string& reason) {
  std::copy_n(reason.begin(), std::min(reason.size(), kReasonBytes - 1), to.begin());
}

// The number in the job of another service process of this node.
SpId number_in_job(SpId self, const ConfigureBody& configuration, std::uint32_t sp) {
  return SpId{self.value() - configuration.sp + sp};
}

// Does the job map agree with the keeper's message about this node? A replacement checks less, because ranks may have
// left.
bool fits_this_node(const JobMap& job_map, std::uint32_t node, const ConfigureBody& configuration,
                    const std::vector<std::optional<SpId>>& sp_of_rank) {
  if (node >= job_map.nodes.size() || job_map.nodes[node].addresses.size() != configuration.sp_count) return false;
  std::size_t known = 0;
  for (std::size_t rank = 0; rank < sp_of_rank.size(); ++rank) {
    if (!sp_of_rank[rank]) continue;
    ++known;
    if (job_map.sp_of_rank[rank].value() != job_map.first_sp[node] + sp_of_rank[rank]->value()) return false;
  }
  return known == job_map.nodes[node].ranks.size() || configuration.epoch > 1;
}

}  // namespace

Wiring::Wiring(KeeperLink& keeper, fabric::HostFabric& host, fabric::Ports& ports, SteeringHost& plans,
               PostIntake& posts, CorePolicy& core, Sleeper& sleeper, Heartbeat& heartbeat, KeeperlessMode& keeperless)
    : keeper_(keeper),
      host_(host),
      ports_(ports),
      plans_(plans),
      posts_(posts),
      core_(core),
      sleeper_(sleeper),
      heartbeat_(heartbeat),
      keeperless_(keeperless) {
  add_port(host_.rings());
  add_port(host_);
  add_port(core_);
}

void Wiring::handle(ControlMessage& message) {
  if (configuration_.has_value() == (message.kind() == ControlKind::configure)) {
    return keeper_.fail("the keeper sent its configuration twice, or not first");
  }
  switch (message.kind()) {
    case ControlKind::configure: return configure(message.body<ConfigureBody>());
    case ControlKind::heartbeat:
      if (const Status shown = heartbeat_.show_in(message.fds()[0]); !shown) keeper_.fail(shown.error());
      if (dpu_) dpu_->rma().count_in(heartbeat_.host_memory());
      return;
    case ControlKind::degraded:
      degraded_ = true;
      if (engine_ && !dpu_) core_.give_up_offloading();
      return;
    case ControlKind::core_share: return share_core(message.body<CoreShareBody>());
    case ControlKind::peer_ring: return add_peer(message.body<PeerRingBody>(), message.fds());
    case ControlKind::rank_joined: return add_rank(message.body<RankJoinedBody>(), message.fds());
    case ControlKind::rank_remote: return add_remote_rank(message.body<RankRemoteBody>(), message.fds()[0]);
    case ControlKind::take_place: return take_place(message.body<TakePlaceBody>());
    case ControlKind::doorbell: return sleeper_.watch_doorbell(std::move(message.fds()[0]));
    case ControlKind::peer_moved: return move_peer(message.body<PeerMovedBody>(), message.fds()[0]);
    case ControlKind::peer_watched: {
      const auto body = message.body<PeerBody>();
      return wire_ ? wire_->replacements().expect(SpId{body.sp}, Epoch{body.epoch}) : void();
    }
    case ControlKind::job_map: return answer_job_map(message.body<SharedBytesBody>(), message.fds()[0]);
    case ControlKind::introduced: introduced_ = true; return start_engine_when_complete();
    case ControlKind::rank_left: return rank_left(message.body<RankLeftBody>());
    case ControlKind::trace: return tracing_.take(message.body<RankBody>(), message.fds()[0]);
    case ControlKind::region_add: return add_region(message.body<RegionBody>(), message.fds());
    case ControlKind::region_drop: {
      const auto body = message.body<RegionBody>();
      fabric::RankMemory* memory = host_.rank(WorldRank{body.world_rank});
      if (memory != nullptr) memory->drop_region(RegionId{body.region});
      return;
    }
    default: return keeper_.fail("unexpected message from the keeper");
  }
}

void Wiring::configure(const ConfigureBody& body) {
  configuration_ = body;
  self_ = SpId{body.sp};
  if (body.epoch != 0) arrange_faults_of(body.epoch);
  sp_of_rank_.resize(body.world_size);
  sleeper_.share_core(body.core_share);
  host_.share_core(body.core_share);
  host_.set_cache_bytes(body.cache_bytes);
  ask_for_short_slices();
  const Status reached_ranks = body.elsewhere != 0 ? open_dpu() : Status(Done{});
  if (!reached_ranks) return keeper_.fail(reached_ranks.error());
  const Status reached_nodes = body.nodes > 1 && body.epoch != 0 ? open_wire() : Status(Done{});
  if (!reached_nodes) return keeper_.fail(reached_nodes.error());
  if (body.cpu < 0) return;
  const Status bound = bind_thread_to_cpu(body.cpu);
  if (!bound) return spdlog::warn("{}", bound.error());  // slower, but not wrong
  if (body.core_share == copy::CoreShare::own) core_.watch_core(body.cpu);
}

// Lenders stay the same (copy/policy.hpp), so running operations are not affected.
void Wiring::share_core(const CoreShareBody& body) {
  using copy::CoreShare;
  const bool fits = body.core_share == CoreShare::own || body.core_share == CoreShare::shared;
  if (!fits || configuration_->cpu < 0) return keeper_.fail("the keeper sent an invalid core share");
  sleeper_.share_core(body.core_share);
  host_.share_core(body.core_share);
  if (body.other_job != 0) core_.publish_other_job(body.other_job);
}

void Wiring::add_port(fabric::Port& port) {
  ports_.emplace_back(port);
  sleeper_.watch(port);
}

fabric::Seams Wiring::seams() {
  auto& ranks = of_node<fabric::RankView>();
  const fabric::Seams all = cluster_ ? fabric::Seams{*cluster_, *cluster_, ranks}
                                     : fabric::Seams{of_node<fabric::BlockMover>(), host_.rings(), ranks};
  if (!dpu_) return all;
  marks_first_ = std::make_unique<fabric::dpu::MarksFirst>(all.messenger, all.ranks, dpu_->marks());
  dpu_->marks().on_in_place = [this] { marks_first_->let_go(); };
  return {all.mover, *marks_first_, *marks_first_};
}

// ---------------------------------------------------------------- ranks of this node

bool Wiring::is_new(std::uint32_t world_rank) {
  if (world_rank < configuration_->world_size && !sp_of_rank_[world_rank]) return true;
  keeper_.fail("the keeper sent rank " + std::to_string(world_rank) + " twice, or out of range");
  return false;
}

void Wiring::know_rank(std::uint32_t world_rank, std::uint32_t sp) {
  sp_of_rank_[world_rank] = SpId{sp};
  ++ranks_known_;
  start_engine_when_complete();
}

void Wiring::add_rank(const RankJoinedBody& body, std::vector<UniqueFd>& fds) {
  if (!is_new(body.world_rank)) return;
  const WorldRank rank{body.world_rank};
  Result<Mapping> segment = Mapping::map(fds[0].get(), SegmentView::segment_bytes());
  if (!segment) return keeper_.fail(segment.error());
  const SegmentView view(segment.value().base());
  if (!view.valid_for(rank)) {
    return keeper_.fail("the segment of rank " + std::to_string(rank.value()) + " is malformed");
  }
  RankReach found = probe_rank(body, *configuration_);
  if ((body.reach & ~found.reach & (kReachMapped | kReachCma)) != 0) {
    if (ends(body.pid)) return know_rank(body.world_rank, body.sp);  // the keeper will report that it has left
    return keeper_.fail("the memory of rank " + std::to_string(rank.value()) + " cannot be reached any more");
  }
  host_.add_rank(rank, fabric::RankMemory(body.pid, std::move(segment).value(), (found.reach & kReachCma) != 0));
  fabric::RankMemory& memory = *host_.rank(rank);
  memory.set_probe(body.probe_address);
  if (!degraded_) memory.set_windows(std::move(found.windows));
  if (body.sp == configuration_->sp) {
    (void)take_back_all(view.header().copies);  // jobs of a service process that has died
    if ((found.reach & kReachCopier) != 0 && !degraded_) host_.expect_copier(rank);
    sleeper_.watch_doorbell(std::move(fds[1]));
    posts_.serve(rank, view);
    core_.publish_to(view.header());
    keeperless_.show_life(std::move(fds[0]));
  }
  keeperless_.know(rank, body.pid, view);
  know_rank(body.world_rank, body.sp);
  keeper_.tell(ControlKind::rank_attached, RankAttachedBody{body.world_rank, found.reach});
}

void Wiring::add_region(const RegionBody& body, std::vector<UniqueFd>& fds) {
  RegionAddedBody answer{body.world_rank, body.region, 0, 0};
  fabric::RankMemory* memory = host_.rank(WorldRank{body.world_rank});
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
  keeper_.tell(ControlKind::region_added, answer);
}

// A replacement learns here which service process served the rank: peers' messages may be about it.
void Wiring::rank_left(const RankLeftBody& body) {
  if (body.world_rank >= configuration_->world_size || body.sp >= configuration_->sp_count) {
    return keeper_.fail("the keeper reported that rank " + std::to_string(body.world_rank) + " of service process " +
                        std::to_string(body.sp) + " has left, which is out of range");
  }
  sp_of_rank_[body.world_rank] = SpId{body.sp};
  remove_rank(WorldRank{body.world_rank});
}

void Wiring::remove_rank(WorldRank rank) {
  if (const fabric::RankMemory* memory = host_.rank(rank)) core_.remove(memory->segment().header());
  engine_ ? drop_from_engine(rank) : left_before_.push_back(rank);
  if (dpu_) dpu_->drop_rank(rank);
  keeperless_.forget(rank);  // its segment is unmapped with it
  host_.drop_rank(rank);
  posts_.remove(rank);
  tracing_.remove(rank);
}

// ---------------------------------------------------------------- remote ranks, from a DPU

Status Wiring::open_dpu() {
  fabric::dpu::DpuOptions options;
  options.transports = allowed_transports(*configuration_);
  options.attach_limit = std::chrono::milliseconds(configuration_->attach_limit_ms);
  options.alias = (configuration_->reach_allowed & kReachAlias) != 0;
  options.host_copies = (configuration_->reach_allowed & kReachCopier) != 0;
  options.stands_by = configuration_->epoch == 0;
  Result<std::unique_ptr<fabric::dpu::DpuFabric>> opened =
      fabric::dpu::DpuFabric::open(options, host_, configuration_->process, configuration_->world_size);
  if (!opened) return Error{opened.error()};
  dpu_ = std::move(opened).value();
  posts_.set_mirrors();
  add_port(*dpu_);
  return Done{};
}

void Wiring::add_remote_rank(const RankRemoteBody& body, const UniqueFd& fd) {
  if (!dpu_) return keeper_.fail("the keeper sent a remote rank to a service process on a host");
  if (!is_new(body.world_rank)) return;
  const WorldRank rank{body.world_rank};
  const bool serves = body.sp == configuration_->sp && configuration_->epoch != 0;
  Result<std::vector<std::byte>> bytes = read_shared_bytes(fd.get(), body.bytes, kMaxRankAddressBytes);
  const Result<RankAddress> address =
      bytes ? decode_rank_address(bytes.value()) : Result<RankAddress>(Error{bytes.error()});
  const Status added = address ? dpu_->add_rank(rank, serves, address.value()) : Status(Error{address.error()});
  if (!added) return tell({fabric::dpu::Attached::What::failed, rank, added.error()});
  if (serves) posts_.serve(rank, host_.rank(rank)->segment());
  know_rank(body.world_rank, body.sp);
}

// Its connections are made or in progress; it served no rank until now.
void Wiring::take_place(const TakePlaceBody& body) {
  if (!dpu_ || configuration_->epoch != 0 || body.epoch < 2 || body.sp >= configuration_->sp_count) {
    return keeper_.fail("the keeper sent a place that this service process cannot take");
  }
  configuration_->sp = body.sp;
  configuration_->epoch = body.epoch;
  self_ = SpId{body.sp};
  arrange_faults_of(body.epoch);
  const Status bound = body.cpu >= 0 ? bind_thread_to_cpu(body.cpu) : Status(Done{});
  if (!bound) spdlog::warn("{}", bound.error());
  const Status reached_nodes = configuration_->nodes > 1 ? open_wire() : Status(Done{});
  if (!reached_nodes) return keeper_.fail(reached_nodes.error());
  dpu_->look_after(fabric::Port::Clock::now(), {});  // begins to connect to all ranks it knows
  for (std::uint32_t number = 0; number < configuration_->world_size; ++number) {
    const WorldRank rank{number};
    if (sp_of_rank_[number] != SpId{body.sp} || host_.rank(rank) == nullptr) continue;
    dpu_->take_over().begin(rank);
    posts_.serve(rank, host_.rank(rank)->segment());
  }
}

void Wiring::report_attached() {
  if (!dpu_) return;
  while (const auto attached = dpu_->attachments().next()) tell(*attached);
}

void Wiring::tell(const fabric::dpu::Attached& attached) {
  using What = fabric::dpu::Attached::What;
  const std::uint32_t rank = attached.rank.value();
  if (attached.what == What::reached) {
    const bool alias = (attached.reach & kReachAlias) != 0;
    spdlog::info("rank {}: reached, {}", rank, alias ? "moved by exported handles" : "staged");
    return keeper_.tell(ControlKind::rank_attached, RankAttachedBody{rank, attached.reach});
  }
  RankWiredBody body;
  body.world_rank = rank;
  body.ok = attached.what == What::wired ? 1 : 0;
  set_reason(body.reason, attached.reason);
  keeper_.tell(ControlKind::rank_wired, body);
}

// ---------------------------------------------------------------- other service processes

void Wiring::add_peer(const PeerRingBody& body, std::vector<UniqueFd>& fds) {
  Result<Mapping> outbound = Mapping::map(fds[0].get(), byte_ring_bytes());
  Result<Mapping> inbound = Mapping::map(fds[1].get(), byte_ring_bytes());
  if (!outbound || !inbound) return keeper_.fail(outbound ? inbound.error() : outbound.error());
  peer_epochs_[SpId{body.sp}] = Epoch{body.epoch};
  // Before the peer is told that its predecessor's messages are ignored.
  const SpId number = number_in_job(self_, *configuration_, body.sp);
  if (engine_) engine_->peer_restarted(number, Epoch{body.epoch});
  const Status added =
      host_.rings().add(SpId{body.sp}, std::move(outbound).value(), std::move(inbound).value(), std::move(fds[2]));
  if (!added) return keeper_.fail(added.error());
  if (coordinator_) coordinator_->peer_restarted(number, Epoch{body.epoch});
}

Status Wiring::open_wire() {
  fabric::ucx::WireOptions options;
  options.transports = allowed_transports(*configuration_);
  if (configuration_->instead_of_dpu != 0) options.eager_bytes_of_peer = 0;  // DPUs do not take eager bytes
  options.on_silent = [this](SpId sp) { keeper_.tell(ControlKind::peer_silent, PeerBody{sp.value(), 0}); };
  options.links = [this] { return heartbeat_.links(); };
  options.on_route = [this](const WireRoute& route) { publish_route(route); };
  Result<std::unique_ptr<Wire>> opened = Wire::open(std::move(options), of_node<fabric::NodeMemory>());
  if (!opened) return Error{opened.error()};
  wire_ = std::move(opened).value();
  add_port(*wire_);
  const std::vector<std::byte> address = wire_->address();
  const Result<UniqueFd> shared = share_bytes("outrigger-address", address);
  if (!shared) return Error{shared.error()};
  const int fd = shared.value().get();
  keeper_.tell(ControlKind::wire_address, SharedBytesBody{address.size(), 0, 0}, std::span(&fd, 1));
  return Done{};
}

// Tells the ranks how data travels.
void Wiring::publish_route(const WireRoute& route) {
  spdlog::info("wire: {}", text_of(route));
  if (routes_published_ >= kMaxWireRoutes) return;
  const std::size_t place = routes_published_++;
  for (const ServedRank& served : posts_.served()) {
    SegmentHeader& header = served.segment.header();
    header.wire_routes[place] = route;
    header.wire_route_count.store(static_cast<std::uint32_t>(place + 1), std::memory_order_release);
    if (dpu_) dpu_->publish_route(served.rank, place);
  }
}

void Wiring::answer_job_map(const SharedBytesBody& body, const UniqueFd& fd) {
  JobMapTakenBody answer;
  const Status taken = take_job_map(body, fd);
  answer.ok = taken ? 1 : 0;
  if (!taken) set_reason(answer.reason, taken.error());
  keeper_.tell(ControlKind::job_map_taken, answer);
}

Status Wiring::take_job_map(const SharedBytesBody& body, const UniqueFd& fd) {
  if (!wire_ || job_map_) return Error{"an unexpected job map"};
  Result<std::vector<std::byte>> bytes = read_shared_bytes(fd.get(), body.bytes, kMaxJobMapBytes);
  if (!bytes) return Error{bytes.error()};
  Result<JobMap> job_map = decode_job_map(bytes.value(), configuration_->world_size);
  if (!job_map) return Error{job_map.error()};
  if (!fits_this_node(job_map.value(), body.node, *configuration_, sp_of_rank_)) {
    return Error{"the job map contradicts the keeper about this node"};
  }
  const SpId first{job_map.value().first_sp[body.node]};
  self_ = SpId{first.value() + configuration_->sp};
  // It has the one of its first predecessor.
  const bool again = configuration_->epoch > 1;
  if (again) job_map.value().nodes[body.node].addresses[configuration_->sp] = wire_->address();
  const Epoch epoch{configuration_->epoch};
  if (Status introduced = wire_->introduce(job_map.value(), self_, configuration_->dpu_secret, epoch); !introduced) {
    return introduced;
  }
  host_.rings().count_from(first);
  job_map_ = std::move(job_map).value();
  cluster_.emplace(of_node<fabric::BlockMover>(), host_.rings(), *wire_, *job_map_, self_);
  start_engine_when_complete();
  if (!engine_ && !again) return Error{"the job map came before the ranks of this node"};
  return Done{};
}

// Relayed by another node's keeper: a malformed message must not end this process.
void Wiring::move_peer(const PeerMovedBody& body, const UniqueFd& fd) {
  const SpId sp{body.sp};
  if (!job_map_ || Epoch{body.epoch} <= moved_[sp]) return;
  const Result<std::vector<std::byte>> address = read_shared_bytes(fd.get(), body.bytes, kMaxWireAddressBytes);
  const Status moved =
      address ? wire_->replacements().moved(sp, Epoch{body.epoch}, address.value()) : Error{address.error()};
  if (!moved) return spdlog::warn("ignored a message about a replaced service process: {}", moved.error());
  moved_[sp] = Epoch{body.epoch};
  restarted(sp, Epoch{body.epoch});
}

// ---------------------------------------------------------------- start and end

bool Wiring::complete() const {
  const bool many_nodes = configuration_->nodes > 1;
  if (configuration_->epoch == 0 || (many_nodes && !job_map_)) return false;
  if (configuration_->epoch > 1) return introduced_;  // some ranks may have left
  return ranks_known_ == (many_nodes ? configuration_->local_size : configuration_->world_size);
}

void Wiring::start_engine_when_complete() {
  if (engine_ || !complete()) return;
  const bool again = configuration_->epoch > 1;
  if (again && dpu_ && !dpu_->take_over().all_read()) return;  // the keeper limits the wait
  // Peers that still listen to the predecessor may act on its messages, and ranks may still copy for it.
  if (again && !(host_.rings().all_here() && posts_.copies_are_over())) {
    if (++looks_for_rest_ == kMostLooksForRest) keeper_.fail("moves of the service process before this one do not end");
    return;
  }
  const bool many_nodes = configuration_->nodes > 1;
  engine::EngineConfig config;
  config.self = self_;
  config.epoch = Epoch{configuration_->epoch};
  config.limits.window_moves =
      degraded_ ? 1 : engine::window_moves_for(configuration_->nodes, configuration_->sp_count);
  if (dpu_ && dpu_->leaves_copies_to_host() && !degraded_) {
    config.limits.near_window_moves = copy::kMostNearMoves;
    config.limits.near_window_bytes = copy::kLeastBytesToLend;
  }
  if (many_nodes) {
    config.sp_of_rank = job_map_->sp_of_rank;
    for (std::uint32_t sp = 0; sp < job_map_->sp_count; ++sp) config.node_of_sp.push_back(job_map_->node_of(SpId{sp}));
  } else {
    for (const auto& sp : sp_of_rank_) config.sp_of_rank.push_back(sp.value_or(SpId{configuration_->sp_count}));
    config.node_of_sp.assign(configuration_->sp_count, 0);
  }
  static_assert(engine::EngineLimits{}.message_bytes <= kByteRingMaxMessage);
  const fabric::Seams all = seams();
  const bool traced = configuration_->traced != 0;
  plans_.send_by(all.messenger);
  coordinator_ = std::make_unique<steer::Coordinator>(
      steer::CoordinatorConfig{config.self, config.epoch, config.sp_of_rank}, plans_);
  engine_ = std::make_unique<engine::Engine>(std::move(config), traced ? tracing_.around(all, posts_) : all);
  if (!dpu_) (void)::prctl(PR_SET_PDEATHSIG, 0);  // from here on it can continue without its keeper
  core_.start(*coordinator_);
  posts_.start(*engine_, *coordinator_, of_node<fabric::RankView>(), configuration_->world_size);
  for (const auto& [peer, epoch] : moved_) restarted(peer, epoch);
  if (again) take_over();
  for (const WorldRank rank : left_before_) drop_from_engine(rank);
  // After the ranks' plans are read. A DPU cannot hold its host's ranks in their calls.
  if (again && degraded_ && !dpu_) core_.give_up_offloading();
}

void Wiring::take_over() {
  for (const auto& [peer, epoch] : peer_epochs_) {
    restarted(number_in_job(self_, *configuration_, peer.value()), epoch);
  }
  const Status taken = posts_.take_over(configuration_->epoch - 1);
  if (!taken)
    keeper_.fail("the operations of the service process before this one cannot be continued: " + taken.error());
  if (dpu_) dpu_->take_over().go_on();
}

void Wiring::drop_from_engine(WorldRank rank) {
  engine_->drop_rank(rank);
  coordinator_->drop_rank(rank);
}

void Wiring::restarted(SpId peer, Epoch epoch) {
  if (!engine_) return;
  engine_->peer_restarted(peer, epoch);
  coordinator_->peer_restarted(peer, epoch);
}

void Wiring::leave() {
  if (!dpu_ && (keeper_.lost() || keeper_.closed())) {  // on a DPU the host's keeper tells them, if it can
    const std::string why = keeper_.failed() ? keeper_.failure() : "the keeper of this node is gone (killed?)";
    for (const ServedRank& served : posts_.served()) {
      write_fatal(served.segment, "outrigger: " + why + "; the job cannot go on", FatalState::unsaid);
    }
  }
  if (!job_map_ || keeper_.failed()) return;
  // Peers must not take the end of a good job for the loss of a node. On a DPU, a host without power or network looks
  // like this: the keeper is lost and ranks have not left.
  const bool host_lost = keeper_.lost() && dpu_ && !posts_.served().empty();
  const auto deadline = std::chrono::steady_clock::now() + kLastMessagesLimit;
  wire_->say_goodbye(host_lost ? Wire::Farewell::node_lost : Wire::Farewell::in_order);
  while (!wire_->all_sent() && std::chrono::steady_clock::now() < deadline) (void)wire_->progress();
}

}  // namespace outrigger::service
