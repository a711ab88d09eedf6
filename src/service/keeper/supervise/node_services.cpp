#include "service/keeper/supervise/node_services.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "protocol/shared/segment.hpp"
#include "service/notices/log.hpp"

namespace outrigger::service {
namespace {

// Cores where the rank may run.
CpuMask mask_of(const HelloBody& hello) {
  CpuMask mask;
  for (std::size_t cpu = 0; cpu < kMaxCpus; ++cpu) {
    if ((hello.affinity[cpu / 64] >> (cpu % 64) & 1U) != 0) mask.set(cpu);
  }
  if (mask.none()) mask.set();  // unknown: any core
  return mask;
}

// True if the rank's mask leaves out a core. Without binding by the launcher there is nothing to claim.
bool is_bound(const CpuMask& mask, const Topology& topology) {
  return std::ranges::any_of(topology.cores, [&](const Core& core) { return untouched(core.cpus, mask); });
}

// Users decide if ranks of two jobs share a core. Service processes must know of each other and of ranks.
bool matters(const CoreClaim& claim, const CpuMask& services, const CpuMask& ranks) {
  const auto cpu = static_cast<std::size_t>(claim.cpu);
  return services.test(cpu) || (ranks.test(cpu) && claim.by == CoreClaim::By::service);
}

std::vector<std::uint32_t> numbers_below(std::uint32_t count) {
  std::vector<std::uint32_t> all(count);
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

}  // namespace

NodeServices::NodeServices(const KeeperConfig& config, LocalRanks& ranks, Events& events, ServiceStarter& starter,
                           OtherNodes& nodes)
    : Services(config, ranks, events),
      nodes_(nodes),
      processes_(starter, events),
      claims_(config.claims),
      neighbours_(config.claims, events),
      topology_(read_topology()) {}

Status NodeServices::start() {
  if (Status chosen = choose_places(config_.services); !chosen) return chosen;
  assign_ranks();
  if (Status made = ranks_.make_segments(); !made) return made;
  return launch(numbers_below(count()));
}

// Ranks keep their service processes' numbers.
Status NodeServices::prepare_instead(std::span<const std::uint32_t> times_started) {
  instead_of_dpu_ = true;
  const auto services = static_cast<std::uint32_t>(times_started.size());
  if (Status chosen = choose_places(services); !chosen) return chosen;
  places_.resize(services, places_.front());  // ranks may have left since, and fewer would be enough
  return processes_.take_after(times_started);
}

// The ranks' memory is private to these, whatever a DPU could reach; unreachable ranks are reported.
Status NodeServices::start_instead() {
  for (LocalRank& rank : ranks_) rank.reach = kReachCma;
  running_ = true;
  return launch(numbers_below(count()));
}

Status NodeServices::choose_places(std::uint32_t services) {
  if (!topology_) return Error{topology_.error()};
  const Topology& topology = topology_.value();
  if (Status usable = check_service_cpus(topology, config_.service_cpus); !usable) return usable;
  cache_bytes_ = topology.cache_bytes;
  PlacementRequest request;
  request.local_size = config_.local_size;
  request.usable_cpus =
      static_cast<std::uint32_t>(usable_cpus().size());  // theirs, too: they are children of this process
  request.services = services;
  request.service_cpus = config_.service_cpus;
  request.keepers_here = config_.keepers_here;
  request.number_here = config_.number_here;
  for (const LocalRank& rank : ranks_) {
    if (!rank.present) continue;
    const CpuMask mask = mask_of(rank.hello);
    request.used_by_ranks |= mask;
    if (is_bound(mask, topology)) rank_cpus_ |= mask;
  }
  neighbours_.open();
  claims_.claim_ranks(cpus_of(rank_cpus_));
  place_with_claims(request, topology);
  (void)look_at_neighbours();
  return Done{};
}

// Ranks and service processes of one NUMA domain go together, if possible.
void NodeServices::assign_ranks() {
  const Topology& topology = topology_.value();
  std::vector<int> rank_domains;
  for (const LocalRank& rank : ranks_) rank_domains.push_back(domain_of_cpus(topology, cpus_of(mask_of(rank.hello))));
  const std::vector<std::uint32_t> service_of = services_of_ranks(rank_domains, places_, topology);
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) ranks_[rank].sp = service_of[rank];
}

// Another job may claim a free core in between; then the places are computed again. The set of others' cores only grows
// here, so this loop ends.
void NodeServices::place_with_claims(PlacementRequest& request, const Topology& topology) {
  request.others = claims_.others();
  do {
    claims_.drop_services();
    places_ = place_services(request, topology);
  } while (!claim_places(request, topology));
}

// False: the request now has more cores of other jobs than before.
bool NodeServices::claim_places(PlacementRequest& request, const Topology& topology) {
  bool news = false;
  for (const ServicePlace& place : places_) {
    if (place.cpu < 0) continue;
    const std::vector<int> cpus = cpus_beside(topology, place.cpu);
    if (place.other_job != 0) {
      claims_.share_service(cpus);
      continue;
    }
    const bool claimed = claims_.claim_service(cpus);
    OtherJobs now = claims_.others();  // read after the claim: a job that binds ranks there later sees the claim
    news = news || !claimed || now.one_at(cpus) != 0;
    request.others.services |= now.services;
    request.others.ranks |= now.ranks;
    request.others.claims = std::move(now.claims);
    if (claimed) continue;
    for (const int cpu : cpus) request.others.services.set(static_cast<std::size_t>(cpu));
  }
  return !news;
}

// Returns those whose core is now shared with another job, or not any more.
std::vector<std::uint32_t> NodeServices::look_at_neighbours() {
  if (config_.claims.scope.empty()) return {};
  const Topology& topology = topology_.value();
  const OtherJobs others = claims_.others();
  std::vector<std::uint32_t> changed;
  CpuMask services;
  for (std::uint32_t sp = 0; sp < count(); ++sp) {
    ServicePlace& place = places_[sp];
    if (place.cpu < 0) continue;
    const std::vector<int> cpus = cpus_beside(topology, place.cpu);
    for (const int cpu : cpus) services.set(static_cast<std::size_t>(cpu));
    const pid_t other = others.one_at(cpus);
    if (std::exchange(place.other_job, other) == other) continue;
    place.core_share = place.free_of_own && other == 0 ? copy::CoreShare::own : copy::CoreShare::shared;
    changed.push_back(sp);
  }
  std::vector<CoreClaim> near = others.claims;
  std::erase_if(near, [&](const CoreClaim& claim) { return !matters(claim, services, rank_cpus_); });
  neighbours_.meet(near);
  return changed;
}

// Sharing with other jobs and sharing with own ranks are separate: a core without own ranks is watched even if another
// job is there.
void NodeServices::send_core_share(std::uint32_t sp) {
  processes_.tell(sp, ControlKind::core_share, CoreShareBody{place(sp).core_share, place(sp).other_job});
  spdlog::info("cpu {} of service process {}: {}", place(sp).cpu, sp,
               place(sp).other_job == 0 ? std::string("no other job uses it any more")
                                        : fmt::format("shared with another job (pid {})", place(sp).other_job));
}

// Starts these and gives each the full configuration. For one that is started again, place, doorbell, segments, regions
// and the job map are still here. Restarted ones begin to work when they know every peer, and every rank that has left.
Status NodeServices::launch(std::span<const std::uint32_t> sps) {
  for (const std::uint32_t sp : sps) {
    if (Status started = processes_.start(sp); !started) return started;
    configure(sp);
  }
  for (const std::uint32_t sp : sps) {
    if (Status introduced = introduce(sp); !introduced) return introduced;
    if (processes_.times_started(sp) == 1) continue;
    for (const OtherNodes::ForServices& news : nodes_.for_a_new_one()) {
      const int fd = news.attached.get();
      processes_.send(sp, news.packet, std::span(&fd, fd >= 0 ? 1 : 0));
    }
    processes_.tell(sp, ControlKind::introduced, IntroducedBody{running_ ? 1U : 0U, 0});
  }
  return Done{};
}

void NodeServices::configure(std::uint32_t sp) {
  ConfigureBody body = configuration(sp);
  body.dpu_secret = config_.dpu_secret;
  body.epoch = processes_.times_started(sp);
  body.cache_bytes = cache_bytes_;
  if (instead_of_dpu_) {
    body.instead_of_dpu = 1;
    body.reach_allowed &= ~(kReachCopier | kReachXpmem);  // ranks have been offered neither
  }
  if (place(sp).free_of_own) body.core_share = copy::CoreShare::own;
  processes_.tell(sp, ControlKind::configure, body);
  processes_.show_heartbeat(sp);
  if (deaths_.degraded()) processes_.tell(sp, ControlKind::degraded, RankBody{});
  spdlog::info("service process {} (pid {}) on cpu {}{}", sp, processes_.pid(sp), body.cpu,
               place(sp).free_of_own ? ", a core free of ranks" : "");
  if (place(sp).other_job != 0) send_core_share(sp);
}

// Peers before ranks: a service process begins to work once it knows all ranks.
Status NodeServices::introduce(std::uint32_t sp) {
  if (Status connected = processes_.connect(sp); !connected) return connected;
  for (const LocalRank& rank : ranks_) {
    if (rank.present) introduce_rank(sp, rank);
  }
  for (const RankLeftBody& left : ranks_.left()) processes_.tell(sp, ControlKind::rank_left, left);
  return Done{};
}

void NodeServices::introduce_rank(std::uint32_t sp, const LocalRank& rank) {
  RankJoinedBody joined;
  joined.world_rank = rank.hello.world_rank;
  joined.sp = rank.sp;
  joined.pid = rank.pid;
  joined.reach = running_ ? rank.reach : 0;
  joined.xpmem_segment = rank.hello.xpmem_segment;
  joined.probe_address = rank.hello.probe_address;
  joined.probe_value = rank.hello.probe_value;
  const std::array<int, 2> fds{rank.segment_fd.get(), doorbell(rank.sp)};
  processes_.tell(sp, ControlKind::rank_joined, joined, fds);
  for (const auto& [id, region] : rank.regions.all()) {
    const int fd = region.fd.get();
    processes_.tell(sp, ControlKind::region_add, RegionBody{joined.world_rank, id, region.base, region.bytes},
                    std::span(&fd, 1));
  }
  if (sp == rank.sp) show_trace(rank);
}

void NodeServices::show_trace(const LocalRank& rank) {
  if (!rank.trace_fd.valid()) return;
  const int fd = rank.trace_fd.get();
  processes_.tell(rank.sp, ControlKind::trace, RankBody{rank.hello.world_rank, 0}, std::span(&fd, 1));
}

// Claims first: idle service processes use no core and take a while to end, and the user's next job may look already.
void NodeServices::stop() {
  claims_.drop();
  neighbours_.close();
  processes_.stop();
}

std::vector<ServiceMessage> NodeServices::receive(const Event& event) {
  if (event.source == Source::neighbour) neighbours_.handle_event();
  if (neighbours_.time_to_look(events_.now())) {
    for (const std::uint32_t sp : look_at_neighbours()) send_core_share(sp);
  }
  look_for_hung();
  std::vector<ServiceMessage> messages = processes_.receive(event);
  if (const std::vector<LostService> lost = processes_.take_lost(); !lost.empty()) replace(lost);
  return messages;
}

// Only the counts of untaken posts are visible to the keeper.
void NodeServices::look_for_hung() {
  const Clock::time_point now = events_.now();
  if (!running_ || now - looked_for_hung_ < HungServices::kBetweenLooks) return;
  looked_for_hung_ = now;
  ServiceSet have_posts;
  for (const LocalRank& rank : ranks_) {
    if (!rank.present) continue;
    const SegmentHeader& header = SegmentView(rank.segment.base()).header();
    const bool taken =
        header.ring_tail.load(std::memory_order_relaxed) == header.ring_head.load(std::memory_order_relaxed) &&
        header.overflow_tail.load(std::memory_order_relaxed) == header.overflow_taken.load(std::memory_order_relaxed);
    if (!taken) have_posts.set(rank.sp);
  }
  processes_.look_for_hung(have_posts);
}

void NodeServices::replace(const std::vector<LostService>& lost) {
  std::vector<std::uint32_t> sps;
  const bool was_degraded = deaths_.degraded();
  std::string last;
  for (const LostService& one : lost) {
    const std::string what = fmt::format("service process {} (pid {}) on node {} {}{}", one.sp, one.pid, host_name(),
                                         one.how, where_it_was(processes_.shown(one.sp)));
    if (const auto reason = why_not_replaced(one)) return fail(what + *reason);
    spdlog::warn("{}; it is replaced", what);
    nodes_.lost(one.sp, what);
    sps.push_back(one.sp);
    if (deaths_.degraded() && last.empty()) last = what + deaths_.how_many(one.sp);
  }
  if (deaths_.degraded() && !was_degraded) {
    tell_all(ControlKind::degraded, RankBody{});
    warn(last + ": collectives run natively from now on");
  }
  if (const Status launched = launch(sps); !launched) fail(launched.error());
}

std::optional<std::string> NodeServices::why_not_replaced(const LostService& lost) {
  if (!lost.killed || !nodes_.can_be_notified()) return std::string();
  if (deaths_.note(lost.sp, last_taken(processes_.shown(lost.sp)), events_.now())) return std::nullopt;
  return deaths_.how_many(lost.sp);
}

std::optional<Services::Clock::time_point> NodeServices::next_look() const {
  std::optional<Clock::time_point> next = neighbours_.next_look();
  const auto at = [&next](Clock::time_point time) { next = std::min(next.value_or(time), time); };
  if (processes_.any_stopped()) at(events_.now() + StoppedServices::kTurn);
  if (running_) at(looked_for_hung_ + HungServices::kBetweenLooks);
  return next;
}

void NodeServices::send(std::uint32_t sp, std::vector<std::byte> packet, std::span<const int> fds) {
  processes_.send(sp, std::move(packet), fds);
}

Status NodeServices::take_regions() const {
  return processes_.backlogged() ? Status(Error{"a service process does not read its messages"}) : Status(Done{});
}

}  // namespace outrigger::service
