#include "service/keeper/node_services.hpp"

#include <fmt/format.h>

#include <array>
#include <numeric>
#include <utility>

#include "service/log.hpp"

namespace outrigger::service {
namespace {

// Where the rank may run.
CpuMask mask_of(const HelloBody& hello) {
  CpuMask mask;
  for (std::size_t cpu = 0; cpu < kMaxCpus; ++cpu) {
    if ((hello.affinity[cpu / 64] >> (cpu % 64) & 1U) != 0) mask.set(cpu);
  }
  if (mask.none()) mask.set();  // unknown: anywhere
  return mask;
}

}  // namespace

NodeServices::NodeServices(const KeeperConfig& config, LocalRanks& ranks, Events& events, ServiceStarter& starter)
    : Services(config, ranks, events), processes_(starter, events), topology_(read_topology()) {}

Status NodeServices::start() {
  if (!topology_) return Error{topology_.error()};
  if (Status usable = check_service_cpus(topology_.value(), config_.service_cpus); !usable) return usable;
  choose_places(topology_.value());
  if (Status made = ranks_.make_segments(); !made) return made;
  std::vector<std::uint32_t> all(count());
  std::iota(all.begin(), all.end(), 0U);
  return launch(all);
}

// Ranks and service processes of one NUMA domain together, as far as that goes.
void NodeServices::choose_places(const Topology& topology) {
  cache_bytes_ = topology.cache_bytes;
  PlacementRequest request;
  request.local_size = config_.local_size;
  request.usable_cpus =
      static_cast<std::uint32_t>(usable_cpus().size());  // theirs, too: they are this process's children
  request.services = config_.services;
  request.service_cpus = config_.service_cpus;
  request.keepers_here = config_.keepers_here;
  request.number_here = config_.number_here;
  std::vector<int> rank_domains;
  for (const LocalRank& rank : ranks_) {
    const CpuMask mask = mask_of(rank.hello);
    request.used_by_ranks |= mask;
    rank_domains.push_back(domain_of_cpus(topology, cpus_of(mask)));
  }
  places_ = place_services(request, topology);
  const std::vector<std::uint32_t> service_of = services_of_ranks(rank_domains, places_, topology);
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) ranks_[rank].sp = service_of[rank];
}

// Starts these, and tells them all that they have to know: every one at the start. Of what one needs that is started
// again place, doorbell, segments and regions are kept; the job map and ranks that have left are not.
Status NodeServices::launch(std::span<const std::uint32_t> sps) {
  for (const std::uint32_t sp : sps) {
    if (Status started = processes_.start(sp); !started) return started;
    configure(sp);
  }
  for (const std::uint32_t sp : sps) {
    if (Status introduced = introduce(sp); !introduced) return introduced;
  }
  return Done{};
}

void NodeServices::configure(std::uint32_t sp) {
  ConfigureBody body = configuration(sp);
  body.epoch = processes_.times_started(sp);
  body.cache_bytes = cache_bytes_;
  processes_.tell(sp, ControlKind::configure, body);
  const bool own = body.core_share == copy::CoreShare::own;
  spdlog::info("service process {} (pid {}) on cpu {}{}", sp, processes_.pid(sp), body.cpu,
               own ? ", a core free of ranks" : "");
}

// The other service processes before the ranks: with all ranks known it begins to work.
Status NodeServices::introduce(std::uint32_t sp) {
  if (Status connected = processes_.connect(sp); !connected) return connected;
  for (const LocalRank& rank : ranks_) {
    if (rank.present) introduce_rank(sp, rank);
  }
  return Done{};
}

void NodeServices::introduce_rank(std::uint32_t sp, const LocalRank& rank) {
  RankJoinedBody joined;
  joined.world_rank = rank.hello.world_rank;
  joined.sp = rank.sp;
  joined.pid = rank.pid;
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
}

std::vector<ServiceMessage> NodeServices::receive(const Event& event) {
  std::vector<ServiceMessage> messages = processes_.receive(event);
  for (const LostService& lost : processes_.take_lost()) {
    fail(fmt::format("service process {} (pid {}) on node {} {}", lost.sp, lost.pid, host_name(), lost.how));
  }
  return messages;
}

std::optional<Services::Clock::time_point> NodeServices::next_look() const {
  if (!processes_.any_stopped()) return std::nullopt;
  return Clock::now() + StoppedServices::kTurn;
}

void NodeServices::send(std::uint32_t sp, std::vector<std::byte> packet, std::span<const int> fds) {
  processes_.send(sp, std::move(packet), fds);
}

Status NodeServices::take_regions() const {
  return processes_.backlogged() ? Status(Error{"a service process does not take its messages"}) : Status(Done{});
}

}  // namespace outrigger::service
