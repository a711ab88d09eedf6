// The keeper's side of its service processes: starting them, introducing ranks, and what happens when one dies.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "protocol/job_map.hpp"
#include "service/keeper/keeper.hpp"
#include "service/keeper/placement.hpp"
#include "service/keeper/rank_stderr.hpp"
#include "service/log.hpp"
#include "service/loop/fatal.hpp"
#include "service/loop/job_protest.hpp"
#include "service/loop/ring.hpp"
#include "service/loop/transports.hpp"

namespace outrigger::service {
namespace {

CpuMask mask_of(const HelloBody& hello) {
  CpuMask mask;
  for (std::size_t cpu = 0; cpu < kMaxCpus; ++cpu) {
    if ((hello.affinity[cpu / 64] >> (cpu % 64) & 1U) != 0) mask.set(cpu);
  }
  if (mask.none()) mask.set();  // unknown: it may run anywhere
  return mask;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : "unknown";
}

}  // namespace

void Keeper::start_services() {
  phase_ = Phase::attaching;
  phase_began_ = Clock::now();
  if (!config_.dpu.empty()) return start_dpu();
  Result<Topology> topology = read_topology();
  if (!topology) return refuse_everybody(topology.error());
  for (const int cpu : config_.service_cpus) {
    if (!may_use(topology.value(), cpu)) {
      return refuse_everybody(fmt::format(
          "cpu {} for service processes does not exist or may not be used here; see `outriggerd info --json`", cpu));
    }
  }
  PlacementRequest request;
  request.local_size = config_.local_size;
  request.usable_cpus = usable_cpus();  // theirs, too: they are its children
  request.services = config_.services;
  request.service_cpus = config_.service_cpus;
  for (const Rank& rank : ranks_) request.used_by_ranks |= mask_of(rank.hello);
  request.keepers_here = config_.keepers_here;
  request.number_here = config_.number_here;
  for (const ServicePlace& place : place_services(request, topology.value())) {
    if (const Status started = start_service(place); !started) return refuse_everybody(started.error());
  }
  assign_services(topology.value());
  for (std::uint32_t sp = 0; sp < services_.size(); ++sp) configure_service(sp, topology.value());
  if (const Status connected = connect_services(); !connected) return refuse_everybody(connected.error());
  if (const Status introduced = introduce_ranks(); !introduced) return refuse_everybody(introduced.error());
}

Status Keeper::start_service(const ServicePlace& place) {
  const auto sp = static_cast<std::uint32_t>(services_.size());
  Result<StartedService> started = starter_.start();
  if (!started) return Error{started.error()};
  ServiceProcess service;
  service.process = std::move(started).value();
  service.socket = ControlSocket(std::move(service.process.control));
  service.place = place;
  service.doorbell.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!service.doorbell.valid()) return Error{std::string("cannot make a doorbell: ") + std::strerror(errno)};
  watch(service.socket.fd(), Watched::service, sp);
  if (service.process.exit_event.valid()) watch(service.process.exit_event.get(), Watched::service_exit, sp);
  spdlog::info("service process {} (pid {}) on cpu {}{}", sp, service.process.pid, place.cpu,
               place.core_share == copy::CoreShare::own ? ", a core free of ranks" : "");
  services_.push_back(std::move(service));
  return Done{};
}

void Keeper::configure_service(std::uint32_t sp, const Topology& topology) {
  const ServicePlace& place = services_[sp].place;
  ConfigureBody body;
  body.sp = sp;
  body.sp_count = static_cast<std::uint32_t>(services_.size());
  body.world_size = config_.world_size;
  body.local_size = config_.local_size;
  body.cpu = place.cpu;
  body.core_share = place.core_share;
  body.reach_allowed = config_.reach_allowed;
  body.nodes = config_.nodes;
  body.elsewhere = config_.dpu.empty() ? 0 : 1;
  body.cache_bytes = topology.cache_bytes;
  const std::string transports = allowed_transports();
  if (transports.size() < body.transports.size()) std::ranges::copy(transports, body.transports.begin());
  body.attach_limit_ms = static_cast<std::uint32_t>(dpu_attach_limit().count());
  tell_service(sp, ControlKind::configure, body);
}

// A ring for every ordered pair.
Status Keeper::connect_services() {
  return connect_pairs(
      services_.size(), [this](std::uint32_t sp) { return services_[sp].doorbell.get(); },
      [this](std::uint32_t sp, const PeerRingBody& body, std::span<const int> fds) {
        tell_service(sp, ControlKind::peer_ring, body, fds);
      });
}

// Ranks and service processes of one NUMA domain together, as far as that goes.
void Keeper::assign_services(const Topology& topology) {
  std::vector<int> rank_domains;
  for (const Rank& rank : ranks_) {
    std::vector<int> cpus;
    const CpuMask mask = mask_of(rank.hello);
    for (std::size_t cpu = 0; cpu < kMaxCpus; ++cpu) {
      if (mask.test(cpu)) cpus.push_back(static_cast<int>(cpu));
    }
    rank_domains.push_back(domain_of_cpus(topology, cpus));
  }
  std::vector<int> service_domains;
  for (const ServiceProcess& service : services_) {
    service_domains.push_back(service.place.cpu < 0 ? -1 : domain_of_cpus(topology, {service.place.cpu}));
  }
  const std::vector<std::uint32_t> services = services_of_ranks(rank_domains, service_domains);
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) ranks_[rank].sp = services[rank];
}

Status Keeper::make_segment(Rank& rank) {
  Result<UniqueFd> fd = create_sealed_memory("outrigger-rank", SegmentView::segment_bytes(), Backing::on_touch);
  if (!fd) return Error{fd.error()};
  Result<Mapping> mapping = Mapping::map(fd.value().get(), SegmentView::segment_bytes());
  if (!mapping) return Error{mapping.error()};
  rank.segment_fd = std::move(fd).value();
  rank.segment = std::move(mapping).value();
  SegmentView(rank.segment.base()).initialize(WorldRank{rank.hello.world_rank}, config_.world_size);
  return Done{};
}

Status Keeper::introduce_ranks() {
  for (std::uint32_t local_rank = 0; local_rank < ranks_.size(); ++local_rank) {
    Rank& rank = ranks_[local_rank];
    if (Status made = make_segment(rank); !made) return made;
    RankJoinedBody joined;
    joined.world_rank = rank.hello.world_rank;
    joined.sp = rank.sp;
    joined.pid = rank.pid;
    joined.xpmem_segment = rank.hello.xpmem_segment;
    joined.probe_address = rank.hello.probe_address;
    joined.probe_value = rank.hello.probe_value;
    const std::array<int, 2> fds{rank.segment_fd.get(), services_[rank.sp].doorbell.get()};
    tell_services(ControlKind::rank_joined, joined, fds);
  }
  return Done{};
}

// A socket that is full now is written to later: a service process that waits for us to read must not wait for ever.
void Keeper::send_to_service(std::uint32_t sp, std::vector<std::byte> packet, std::span<const int> fds) {
  if (!config_.dpu.empty()) {
    std::vector<std::byte> attached;
    struct stat status {};
    if (!fds.empty() && ::fstat(fds[0], &status) == 0) {
      Result<std::vector<std::byte>> bytes =
          read_shared_bytes(fds[0], static_cast<std::uint64_t>(status.st_size), kMaxDpuAttachedBytes);
      if (bytes) attached = std::move(bytes).value();
    }
    dpu_.send(DpuFrameKind::control, sp, packet, attached);
    return;
  }
  ServiceProcess& service = services_[sp];
  if (!service.socket.open()) return;
  if (service.waiting.empty() && service.socket.send_packet(packet, fds, 0)) return;
  QueuedPacket queued;
  queued.packet = std::move(packet);
  for (const int fd : fds) queued.fds.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  service.waiting.push_back(std::move(queued));
  watch(service.socket.fd(), Watched::service, sp, true);
}

bool Keeper::services_backlogged() const {
  return std::any_of(services_.begin(), services_.end(),
                     [](const ServiceProcess& service) { return service.waiting.size() >= kMaxWaitingPackets; });
}

void Keeper::flush_service(std::uint32_t sp) {
  ServiceProcess& service = services_[sp];
  if (service.waiting.empty()) return;
  while (!service.waiting.empty()) {
    std::vector<int> fds;
    for (const UniqueFd& fd : service.waiting.front().fds) fds.push_back(fd.get());
    if (!service.socket.send_packet(service.waiting.front().packet, fds, 0)) return;
    service.waiting.pop_front();
  }
  watch(service.socket.fd(), Watched::service, sp);
}

void Keeper::read_service(std::uint32_t sp) {
  ServiceProcess& service = services_[sp];
  flush_service(sp);
  for (int i = 0; i < 64 && service.socket.open() && phase_ != Phase::over; ++i) {
    ControlSocket::Received received = service.socket.receive(0);
    if (received.event == ControlSocket::Event::nothing) return;
    if (received.event != ControlSocket::Event::message) return service_lost(sp);
    handle_service(sp, *received.message);
  }
}

void Keeper::handle_service(std::uint32_t sp, ControlMessage& message) {
  switch (message.kind()) {
    case ControlKind::rank_wired: return rank_wired(message.body<RankWiredBody>());
    case ControlKind::rank_attached: return rank_attached(message.body<RankAttachedBody>());
    case ControlKind::region_added: return region_added(message.body<RegionAddedBody>());
    case ControlKind::wire_address: return wire_address(sp, message.body<SharedBytesBody>(), message.fds()[0]);
    case ControlKind::job_map_taken: return job_map_taken(message.body<JobMapTakenBody>());
    case ControlKind::protest: {
      auto body = message.body<ProtestBody>();
      body.reason.back() = '\0';
      if (body.world_rank == kWholeJob) {
        services_[sp].last_words = body.reason.data();
      } else if (body.world_rank == kOtherNode) {
        if (phase_ == Phase::running)
          end_job(std::string("outrigger: ") + body.reason.data() + "; the job cannot go on");
      } else if (const auto local_rank = local_rank_of(body.world_rank)) {
        disconnect_rank(*local_rank, body.reason.data());
      }
      return;
    }
    default: spdlog::error("service process {} sent a message of kind {}", sp, static_cast<int>(message.kind()));
  }
}

void Keeper::rank_attached(const RankAttachedBody& body) {
  const auto local_rank = local_rank_of(body.world_rank);
  if (phase_ != Phase::attaching || !local_rank) return;
  ranks_[*local_rank].attached += 1;
  ranks_[*local_rank].reach &= body.reach;
  welcome_when_attached();
}

void Keeper::wire_address(std::uint32_t sp, const SharedBytesBody& body, const UniqueFd& fd) {
  Result<std::vector<std::byte>> address = read_shared_bytes(fd.get(), body.bytes, kMaxWireAddressBytes);
  if (!address) return refuse_everybody(address.error());
  services_[sp].address = std::move(address).value();
  welcome_when_attached();
}

// To the first rank, which exchanges it with those of the other nodes.
Status Keeper::send_descriptor() {
  NodeDescriptor descriptor;
  descriptor.name = host_name();
  if (config_.keepers_here > 1) descriptor.name += "/" + std::to_string(config_.number_here);
  descriptor.secret = config_.secret;
  for (const ServiceProcess& service : services_) descriptor.addresses.push_back(service.address);
  for (const Rank& rank : ranks_) descriptor.ranks.push_back(RankAssignment{WorldRank{rank.hello.world_rank}, rank.sp});
  std::vector<std::byte> bytes;
  encode_descriptor(descriptor, bytes);
  const Result<UniqueFd> shared = share_bytes("outrigger-descriptor", bytes);
  if (!shared) return Error{shared.error()};
  const int fd = shared.value().get();
  const SharedBytesBody body{bytes.size(), 0, 0};
  if (!ranks_[0].socket.send_packet(encode_control(ControlKind::node_descriptor, body), std::span(&fd, 1), 0)) {
    disconnect_rank(0, "it took no descriptor");
  }
  return Done{};
}

void Keeper::job_map_taken(const JobMapTakenBody& body) {
  if (!ranks_[0].present || !ranks_[0].socket.open()) return;
  // The first refusal is an answer, later ones say no more.
  const bool last = ++job_maps_taken_ == services_.size();
  if (body.ok != 0 && !last) return;
  if (body.ok == 0) job_maps_taken_ = kMaxServices;
  (void)ranks_[0].socket.send_packet(encode_control(ControlKind::job_map_taken, body), {}, 0);
}

void Keeper::welcome_when_attached() {
  if (phase_ != Phase::attaching) return;
  const bool reachable =
      config_.nodes == 1 || std::all_of(services_.begin(), services_.end(),
                                        [](const ServiceProcess& service) { return !service.address.empty(); });
  if (!reachable) return;
  const bool all =
      std::all_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) { return rank.attached == services_.size(); });
  if (!all) return;
  phase_ = Phase::running;
  phase_began_ = Clock::now();
  dpu_.allow_silence(kDpuSilence);
  listener_.reset();  // nobody else is expected
  for (Rank& rank : ranks_) {
    if (rank.present) welcome(rank);
  }
  if (config_.nodes == 1 || !ranks_[0].present) return;
  if (const Status sent = send_descriptor(); !sent) disconnect_rank(0, sent.error());
}

void Keeper::welcome(Rank& rank) {
  const ServiceProcess& service = services_[rank.sp];
  WelcomeBody body;
  body.sp = rank.sp;
  body.sp_count = static_cast<std::uint32_t>(services_.size());
  body.reach = rank.reach;
  body.cpu = service.place.cpu;
  body.core_share = service.place.core_share;
  // A DPU is rung over the network.
  const int doorbell = service.doorbell.valid() ? service.doorbell.get() : rank.segment_fd.get();
  const std::array<int, 2> fds{rank.segment_fd.get(), doorbell};
  if (!rank.socket.send_packet(encode_control(ControlKind::welcome, body), fds, 0)) {
    disconnect_rank(rank.hello.local_rank, "it took no welcome");
  }
}

void Keeper::region_added(const RegionAddedBody& body) {
  const auto local_rank = local_rank_of(body.world_rank);
  if (!local_rank) return;  // it has left
  Rank& rank = ranks_[*local_rank];
  const auto found = rank.regions.find(body.region);
  if (found == rank.regions.end()) return;  // dropped again
  Region& region = found->second;
  region.answers += 1;
  region.ok = region.ok && body.ok != 0;
  if (region.answers != services_.size()) return;
  const bool ok = region.ok;
  if (!ok) {
    tell_services(ControlKind::region_drop, RegionBody{body.world_rank, body.region, region.base, region.bytes});
    rank.regions.erase(found);
  }
  answer_region(rank, body.region, ok);
}

void Keeper::service_lost(std::uint32_t sp) {
  ServiceProcess& service = services_[sp];
  if (!service.socket.open()) return;  // known already
  while (service.last_words.empty()) {
    ControlSocket::Received received = service.socket.receive(0);
    if (received.event != ControlSocket::Event::message) break;
    if (received.message->kind() == ControlKind::protest) handle_service(sp, *received.message);
  }
  unwatch(service.socket.fd());
  unwatch(service.process.exit_event.get());
  service.socket.close();
  service.waiting.clear();
  std::string how = starter_.how_it_ended(sp);
  if (!service.last_words.empty()) how += " (" + service.last_words + ")";
  const std::string what = name_of_service(sp) + " " + how;
  if (phase_ == Phase::attaching) return refuse_everybody(what);
  if (phase_ == Phase::running) end_job("outrigger: " + what + "; the job cannot go on");
}

void Keeper::look_for_stopped_services() {
  const auto count = static_cast<std::uint32_t>(services_.size());
  const std::optional<std::uint32_t> sp = stopped_.look(starter_, count, Clock::now());
  if (!sp || phase_ != Phase::running) return;
  end_job("outrigger: " + name_of_service(*sp) + " has been stopped by a signal; the job cannot go on");
}

std::string Keeper::name_of_service(std::uint32_t sp) const {
  return "service process " + std::to_string(sp) + " (pid " + std::to_string(services_[sp].process.pid) + ") on node " +
         host_name();
}

// Ranks that wait end by themselves when they see the text; the others are ended a little later.
void Keeper::end_job(const std::string& text) {
  spdlog::critical("{}", text);
  phase_ = Phase::ending;
  phase_began_ = Clock::now();
  exit_status_ = 1;
  print_for_people(text);
  for (Rank& rank : ranks_) {
    if (rank.present) write_fatal(SegmentView(rank.segment.base()), text, FatalState::said);
  }
  end_when_empty();
}

// Tries a few only: each that takes no text costs time, and the job is to end soon.
void Keeper::print_for_people(const std::string& text) {
  if (leader_.valid() && print_on_stderr_of(config_.leader_pid, leader_.get(), text)) return;
  int tries = 3;
  for (const Rank& rank : ranks_) {
    if (!rank.present || rank.pid <= 0 || rank.pid == ::getpid()) continue;
    if (print_on_stderr_of(rank.pid, rank.exit_event.get(), text) || --tries == 0) return;
  }
}

void Keeper::signal_ranks(int signal) {
  last_signal_ = signal;
  if (!config_.end_ranks) return;
  for (const Rank& rank : ranks_) {
    if (!rank.present || !rank.exit_event.valid() || rank.pid == ::getpid()) continue;
    (void)::syscall(SYS_pidfd_send_signal, rank.exit_event.get(), signal, nullptr, 0);
  }
}

}  // namespace outrigger::service
