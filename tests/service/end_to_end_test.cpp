// Keeper, service processes and ranks as threads of one process: random all-to-alls, every byte checked.
#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <chrono>
#include <cstring>
#include <numeric>
#include <random>

#include "client/memory/program_memory.hpp"
#include "service/node.hpp"

namespace outrigger::testing {
namespace {

using client::RankEndpoint;

// One rank's part in one test; every rank draws the same numbers from the same seed.
struct Plan {
  std::uint64_t seed = 0;
  std::uint32_t operations = 0;
  std::uint64_t largest_block = 0;
};

std::byte expected_byte(std::uint32_t from, std::uint32_t to, std::uint64_t operation, std::uint64_t index) {
  return static_cast<std::byte>((from * 31 + to * 17 + operation * 7 + index * 3 + (index >> 8)) & 0xFF);
}

class Memory {
 public:
  Memory(RankEndpoint& client, bool shared, std::uint64_t bytes) {
    if (shared)
      shared_ = static_cast<std::byte*>(client.heap().allocate_for_program(std::max<std::uint64_t>(bytes, 1)));
    if (shared_ == nullptr) private_.resize(std::max<std::uint64_t>(bytes, 1));
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    if (shared_ != nullptr) client::ProgramMemory::of_process().release(shared_);
  }
  [[nodiscard]] std::byte* data() { return shared_ != nullptr ? shared_ : private_.data(); }

 private:
  std::byte* shared_ = nullptr;
  std::vector<std::byte> private_;
};

struct Sizes {
  std::vector<std::uint64_t> bytes;  // [from * n + to]
  bool regular = false;
};

Sizes draw_sizes(std::mt19937_64& random, std::uint32_t n, std::uint64_t largest) {
  Sizes sizes;
  sizes.regular = random() % 2 == 0;
  sizes.bytes.resize(std::size_t{n} * n, random() % (largest + 1));
  if (!sizes.regular) {
    for (std::uint64_t& bytes : sizes.bytes) bytes = random() % 4 == 0 ? 0 : random() % (largest + 1);
  }
  return sizes;
}

// Consecutive blocks.
std::vector<PairExtent> packed(const std::vector<std::uint64_t>& sizes) {
  std::vector<PairExtent> extents;
  std::int64_t offset = 0;
  for (const std::uint64_t bytes : sizes) {
    extents.push_back({offset, bytes});
    offset += static_cast<std::int64_t>(bytes);
  }
  return extents;
}

struct InFlight {
  std::unique_ptr<Memory> send;
  std::unique_ptr<Memory> receive;
  std::vector<PairExtent> receive_extents;
  std::uint64_t number = 0;
  client::PendingOperationPtr pending;
};

void wait_and_check(RankEndpoint& client, InFlight& flight, std::uint32_t me) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!client.poll(*flight.pending)) {
    ASSERT_FALSE(client.fatal()) << *client.fatal();
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "operation " << flight.number << " hangs on rank " << me;
    client.wait_for_completion(std::chrono::microseconds(200));
  }
  ASSERT_EQ(flight.pending->result.status, CompletionStatus::ok);
  for (std::uint32_t from = 0; from < flight.receive_extents.size(); ++from) {
    const PairExtent& extent = flight.receive_extents[from];
    for (std::uint64_t i = 0; i < extent.bytes; ++i) {
      ASSERT_EQ(flight.receive->data()[static_cast<std::uint64_t>(extent.offset_bytes) + i],
                expected_byte(from, me, flight.number, i))
          << "operation " << flight.number << ", rank " << me << " from " << from << ", byte " << i;
    }
  }
}

void run_rank(RankEndpoint& client, std::uint32_t me, std::uint32_t n, const Plan& plan) {
  std::mt19937_64 common(plan.seed);
  std::mt19937_64 own(plan.seed * 1000 + me);
  std::vector<WorldRank> members;
  for (std::uint32_t i = 0; i < n; ++i) members.emplace_back(i);
  const auto group = client.define_group(GroupId{7, plan.seed}, members, GroupRank{me});
  std::vector<InFlight> flights;
  for (std::uint64_t number = 0; number < plan.operations; ++number) {
    const Sizes sizes = draw_sizes(common, n, plan.largest_block);
    const auto algorithm = common() % 2 == 0 ? Algorithm::ring_pull : Algorithm::scatter_dest;
    std::vector<std::uint64_t> out;
    std::vector<std::uint64_t> in;
    for (std::uint32_t i = 0; i < n; ++i) {
      out.push_back(sizes.bytes[std::size_t{me} * n + i]);
      in.push_back(sizes.bytes[std::size_t{i} * n + me]);
    }
    const std::vector<PairExtent> send_extents = packed(out);
    InFlight flight;
    flight.receive_extents = packed(in);
    flight.number = number;
    flight.send = std::make_unique<Memory>(client, own() % 2 == 0, std::reduce(out.begin(), out.end()));
    flight.receive = std::make_unique<Memory>(client, own() % 2 == 0, std::reduce(in.begin(), in.end()));
    for (std::uint32_t to = 0; to < n; ++to) {
      for (std::uint64_t i = 0; i < out[to]; ++i) {
        flight.send->data()[static_cast<std::uint64_t>(send_extents[to].offset_bytes) + i] =
            expected_byte(me, to, number, i);
      }
    }
    client::OperationRequest request;
    request.group = group;
    request.sequence = number;
    request.algorithm = algorithm;
    request.send.base = flight.send->data();
    request.receive.base = flight.receive->data();
    if (sizes.regular) {
      request.collective = Collective::ialltoall;
      request.send.block_bytes = request.receive.block_bytes = sizes.bytes[0];
      request.send.stride_bytes = request.receive.stride_bytes = static_cast<std::int64_t>(sizes.bytes[0]);
    } else {
      request.collective = Collective::ialltoallv;
      request.send.extents = send_extents;
      request.receive.extents = flight.receive_extents;
    }
    flight.pending = client.post(request);
    ASSERT_NE(flight.pending, nullptr);
    flights.push_back(std::move(flight));
    if (flights.size() == 4 || own() % 3 == 0) {
      for (InFlight& each : flights) wait_and_check(client, each, me);
      flights.clear();
    }
  }
  for (InFlight& each : flights) wait_and_check(client, each, me);
}

void run_all(const NodeOptions& options, const Plan& plan) {
  Node node(options);
  auto clients = node.attach_all();
  for (const auto& client : clients) ASSERT_TRUE(client) << client.error();
  for (const auto& client : clients) EXPECT_EQ(client.value()->welcome().sp_count, options.services);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < options.ranks; ++rank) {
    threads.emplace_back([&, rank] { run_rank(*clients[rank].value(), rank, options.ranks, plan); });
  }
  for (std::thread& thread : threads) thread.join();
  clients.clear();
  EXPECT_EQ(node.finish(), 0);
}

NodeOptions node_of(std::uint32_t ranks, std::uint32_t services) {
  NodeOptions options;
  options.ranks = ranks;
  options.services = services;
  return options;
}

class EndToEnd : public ::testing::TestWithParam<std::pair<std::uint32_t, std::uint32_t>> {};

TEST_P(EndToEnd, RandomAlltoallsDeliverEveryByte) {
  const auto [ranks, services] = GetParam();
  run_all(node_of(ranks, services), Plan{ranks * 10 + services, 60, 3000});
}

TEST_P(EndToEnd, LargeBlocksDeliverEveryByte) {
  const auto [ranks, services] = GetParam();
  run_all(node_of(ranks, services), Plan{ranks * 100 + services, 3, 700'000});
}

// Like a rank that is in a blocking call of its MPI.
TEST(EndToEndOverflow, RankWithManyPostsIsServedWithoutFurtherCalls) {
  constexpr std::uint64_t kOperations = 10000;
  for (const std::uint32_t services : {1U, 2U}) {
    Node node(node_of(2, services));
    auto clients = node.attach_all();
    std::vector<std::byte> received(2 * 2 * kOperations);
    std::vector<client::PendingOperationPtr> posted[2];
    std::array<std::byte, 2> sent[2];
    for (std::uint32_t me = 0; me < 2; ++me) {
      ASSERT_TRUE(clients[me]) << clients[me].error();
      RankEndpoint& client = *clients[me].value();
      sent[me] = {expected_byte(me, 0, 0, 0), expected_byte(me, 1, 0, 0)};
      std::array<std::shared_ptr<const client::Group>, 2> groups;
      for (std::uint64_t i = 0; i < 2; ++i) {
        groups[i] = client.define_group(GroupId{8, i}, {WorldRank{0}, WorldRank{1}}, GroupRank{me});
      }
      for (std::uint64_t i = 0; i < kOperations; ++i) {
        // Rank 0 posts one group after the other, rank 1 alternates.
        client::OperationRequest request;
        request.group = groups[me == 0 ? i % 2 : i / (kOperations / 2)];
        request.sequence = me == 0 ? i / 2 : i % (kOperations / 2);
        request.send = client::BufferLayout{sent[me].data(), 1, 1, {}};
        request.receive = client::BufferLayout{&received[2 * (me * kOperations + i)], 1, 1, {}};
        posted[me].push_back(client.post(request));
        ASSERT_NE(posted[me].back(), nullptr);
      }
    }
    // Only rank 1 makes calls.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (const auto& operation : posted[1]) {
      while (!clients[1].value()->poll(*operation)) ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    }
    for (const auto& operation : posted[0]) {
      while (!clients[0].value()->poll(*operation)) ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    }
    for (std::uint32_t me = 0; me < 2; ++me) {
      for (std::uint64_t i = 0; i < 2 * kOperations; ++i) {
        ASSERT_EQ(received[2 * me * kOperations + i], expected_byte(static_cast<std::uint32_t>(i % 2), me, 0, 0)) << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, EndToEnd,
                         ::testing::Values(std::pair{1U, 1U}, std::pair{2U, 1U}, std::pair{2U, 2U}, std::pair{3U, 2U},
                                           std::pair{5U, 1U}, std::pair{8U, 1U}, std::pair{8U, 2U}),
                         [](const auto& shape) {
                           return std::to_string(shape.param.first) + "Ranks" + std::to_string(shape.param.second) +
                                  "Services";
                         });

}  // namespace
}  // namespace outrigger::testing
