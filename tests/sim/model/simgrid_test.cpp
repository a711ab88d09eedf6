// The network model compared with SimGrid's, on three patterns of large messages: pairwise all-to-all, ring allgather,
// binomial broadcast. Built if SimGrid is installed (./dev setup --with simgrid).
//
// Both have a star of nodes with a link each way. SimGrid's model is CM02 without its TCP corrections: a latency, and
// bandwidth shared by the users of a link.
#include <gtest/gtest.h>

#include <cstdint>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

#include "sim/baselines/baselines.hpp"
#include "sim/timing/native_side.hpp"
#include "sim/timing/program.hpp"

namespace outrigger::sim {
namespace {

namespace sg4 = simgrid::s4u;

constexpr std::uint32_t kNodes = 16;
constexpr std::uint64_t kBytes = std::uint64_t{16} << 20U;
constexpr double kLink_bytes_per_s = 12.5e9;
constexpr double kLatency_s = 1e-6;  // per link, so twice between nodes

double ours_s(Collective collective, const char* name) {
  model::Cluster cluster;
  cluster.nodes = kNodes;
  cluster.host.memory_bytes_per_s = cluster.host.copy_bytes_per_s = cluster.host.reduce_bytes_per_s = 1e18;
  cluster.mpi.eager_bytes = 0;  // a sender waits until its message has arrived, as in SimGrid
  cluster.network.link_bytes_per_s = kLink_bytes_per_s;
  cluster.network.latency_ns = static_cast<std::uint64_t>(kLatency_s * 1e9);
  cluster.network.chunk_bytes = 65536;
  cluster.network.queue_bytes = 262144;
  model::Machine machine(cluster, JobShape{kNodes, 1, 1, Mapping::contiguous});
  const timing::Call call{collective, Algorithm::ring_pull, baselines::baseline_named(collective, name), kBytes, 0};
  const timing::Workload workload = timing::one_call(machine.places, call);
  timing::NativeSide side(machine, workload, false);
  const Result<timing::RoundTimes> times = timing::run_rounds(machine, side, timing::Rounds{1, 0, 1, 100'000'000});
  EXPECT_TRUE(times.ok()) << times.error();
  return times ? static_cast<double>(times.value().total_ns[0]) * 1e-9 : 0;
}

// SimGrid's side: one rank's part, with mailboxes named by sender and receiver.
sg4::Mailbox* box(std::uint32_t from, std::uint32_t to) {
  return sg4::Mailbox::by_name(std::to_string(from) + ">" + std::to_string(to));
}

void send(std::uint32_t from, std::uint32_t to) {
  static int something;
  box(from, to)->put(&something, kBytes);
}

void exchange(std::uint32_t rank, std::uint32_t to, std::uint32_t from) {
  static int something;
  const sg4::CommPtr sent = box(rank, to)->put_async(&something, kBytes);
  box(from, rank)->get<int>();
  sent->wait();
}

void pairwise(std::uint32_t rank) {
  for (std::uint32_t round = 1; round < kNodes; ++round) exchange(rank, rank ^ round, rank ^ round);
}

void ring(std::uint32_t rank) {
  for (std::uint32_t round = 1; round < kNodes; ++round) {
    exchange(rank, (rank + 1) % kNodes, (rank + kNodes - 1) % kNodes);
  }
}

void binomial(std::uint32_t rank) {
  std::uint32_t distance = 1;
  while (distance < kNodes && (rank & distance) == 0) distance *= 2;
  if (rank != 0) box(rank - distance, rank)->get<int>();
  for (distance /= 2; distance != 0; distance /= 2) send(rank, rank + distance);
}

struct Star {
  Star() {
    sg4::NetZone* const zone = sg4::create_full_zone("star");
    std::vector<sg4::Link*> up;
    std::vector<sg4::Link*> down;
    for (std::uint32_t node = 0; node < kNodes; ++node) {
      hosts.push_back(zone->create_host("n" + std::to_string(node), 1e9));
      for (auto [links, name] : {std::pair{&up, "up"}, std::pair{&down, "down"}}) {
        links->push_back(zone->create_link(name + std::to_string(node), kLink_bytes_per_s));
        links->back()->set_latency(kLatency_s);
        links->back()->seal();
      }
    }
    for (std::uint32_t from = 0; from < kNodes; ++from) {
      for (std::uint32_t to = 0; to < kNodes; ++to) {
        if (from == to) continue;
        zone->add_route(hosts[from]->get_netpoint(), hosts[to]->get_netpoint(), nullptr, nullptr,
                        {sg4::LinkInRoute(up[from]), sg4::LinkInRoute(down[to])}, false);
      }
    }
    zone->seal();
  }
  std::vector<sg4::Host*> hosts;
};

TEST(SimGrid, AgreesWithinFivePercentWherePortsAreSaturated) {
  std::string program = "model_simgrid_test";
  std::vector<std::string> options{"--cfg=network/model:CM02", "--cfg=network/TCP-gamma:0",
                                   "--cfg=network/crosstraffic:0", "--log=root.thres:error"};
  std::vector<char*> arguments{program.data()};
  for (std::string& option : options) arguments.push_back(option.data());
  int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  sg4::Engine engine(&count, arguments.data());
  const Star star;
  const sg4::BarrierPtr together = sg4::Barrier::create(kNodes);
  constexpr std::size_t kPatterns = 3;
  std::vector<double> ends_s(kPatterns, 0);
  for (std::uint32_t rank = 0; rank < kNodes; ++rank) {
    sg4::Actor::create("r" + std::to_string(rank), star.hosts[rank], [rank, &together, &ends_s] {
      std::size_t pattern = 0;
      for (void (*const run)(std::uint32_t) : {pairwise, ring, binomial}) {
        together->wait();
        const double begun_s = sg4::Engine::get_clock();
        run(rank);
        together->wait();  // until the last has ended
        ends_s[pattern++] = sg4::Engine::get_clock() - begun_s;
      }
    });
  }
  engine.run();
  const std::vector<double> ours{ours_s(Collective::ialltoall, "pairwise"), ours_s(Collective::iallgather, "ring"),
                                 ours_s(Collective::ibcast, "binomial")};
  for (std::size_t pattern = 0; pattern < kPatterns; ++pattern) {
    EXPECT_GT(ends_s[pattern], static_cast<double>(kBytes) / kLink_bytes_per_s);
    EXPECT_NEAR(ours[pattern], ends_s[pattern], 0.05 * ends_s[pattern]);
    RecordProperty("pattern" + std::to_string(pattern), std::to_string(ours[pattern] / ends_s[pattern]));
  }
}

}  // namespace
}  // namespace outrigger::sim
