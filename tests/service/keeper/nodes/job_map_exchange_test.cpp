// Nodes connect: two keepers in one process act as two nodes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include "protocol/wire/job_map.hpp"
#include "service/node.hpp"

namespace outrigger::testing {
namespace {

using Clients = std::vector<Result<client::AttachedEndpoint>>;
constexpr std::chrono::milliseconds kTimeout{20000};

// Two nodes of two ranks each; world ranks 0 and 1 live on the first.
class TwoNodes : public ::testing::Test {
 protected:
  void start(std::uint32_t services = 1) {
    for (std::uint32_t i = 0; i < 2; ++i) {
      NodeOptions options;
      options.ranks = 2;
      options.services = services;
      options.world_size = 4;
      options.first_world_rank = 2 * i;
      options.nodes = 2;
      options.number_here = i;
      nodes_[i].emplace(options);
      clients_[i] = nodes_[i]->attach_all();
      for (const auto& client : clients_[i]) ASSERT_TRUE(client) << client.error();
    }
    for (std::uint32_t i = 0; i < 2; ++i) {
      auto descriptor = rank(2 * i).control().node_descriptor(kTimeout);
      ASSERT_TRUE(descriptor) << descriptor.error();
      descriptors_[i] = std::move(descriptor).value();
    }
  }
  [[nodiscard]] client::RankEndpoint& rank(std::uint32_t world_rank) {
    return *clients_[world_rank / 2][world_rank % 2].value();
  }
  [[nodiscard]] std::vector<std::byte> job_map() const {
    std::vector<std::byte> all = descriptors_[0];
    all.insert(all.end(), descriptors_[1].begin(), descriptors_[1].end());
    return all;
  }
  void introduce() {
    for (std::uint32_t i = 0; i < 2; ++i) {
      const Status taken = rank(2 * i).control().take_job_map(job_map(), i, kTimeout);
      ASSERT_TRUE(taken) << taken.error();
    }
  }
  // The keeper and its service processes run, and serve the rank.
  void expect_alive(std::uint32_t world_rank) {
    // It is never released, so that each call announces a new region.
    EXPECT_NE(rank(world_rank).staging().allocate(1 << 20), nullptr);
    EXPECT_FALSE(rank(world_rank).fatal());
  }
  // All four exchange a block with each other.
  void expect_alltoall(std::uint64_t group_number, std::size_t block_bytes) {
    std::array<std::vector<std::byte>, 4> send;
    std::array<std::vector<std::byte>, 4> receive;
    std::vector<std::shared_ptr<const client::Group>> groups;
    std::vector<client::PendingOperationPtr> operations;
    for (std::uint32_t i = 0; i < 4; ++i) {
      send[i].resize(4 * block_bytes);
      receive[i].resize(4 * block_bytes);
      for (std::size_t j = 0; j < send[i].size(); ++j) send[i][j] = static_cast<std::byte>(j / block_bytes * 16 + i);
      const auto group = rank(i).define_group(GroupId{group_number, 1},
                                              {WorldRank{0}, WorldRank{1}, WorldRank{2}, WorldRank{3}}, GroupRank{i});
      client::OperationRequest request;
      request.group = group;
      request.send.base = send[i].data();
      request.receive.base = receive[i].data();
      request.send.block_bytes = request.receive.block_bytes = block_bytes;
      request.send.stride_bytes = request.receive.stride_bytes = static_cast<std::int64_t>(block_bytes);
      groups.push_back(group);
      operations.push_back(rank(i).post(request));
      ASSERT_NE(operations.back(), nullptr);
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (std::uint32_t i = 0; i < 4; ++i) {
      while (!rank(i).poll(*operations[i])) {
        ASSERT_FALSE(rank(i).fatal()) << *rank(i).fatal();
        ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "rank " << i;
        std::this_thread::yield();
      }
      EXPECT_EQ(operations[i]->result.status, CompletionStatus::ok);
      for (std::size_t j = 0; j < receive[i].size(); ++j) {
        ASSERT_EQ(receive[i][j], static_cast<std::byte>(i * 16 + j / block_bytes)) << i << " " << j;
      }
    }
  }

  std::array<std::optional<Node>, 2> nodes_;
  std::array<Clients, 2> clients_;
  std::array<std::vector<std::byte>, 2> descriptors_;
};

TEST_F(TwoNodes, DescriptorsListRanksAndServiceProcesses) {
  start(2);
  const auto decoded = decode_job_map(job_map(), 4);
  ASSERT_TRUE(decoded) << decoded.error();
  EXPECT_EQ(decoded.value().sp_count, 4U);
  EXPECT_EQ(decoded.value().sp_of_rank, (std::vector<SpId>{SpId{0}, SpId{1}, SpId{2}, SpId{3}}));
  for (std::uint32_t sp = 0; sp < 4; ++sp) EXPECT_FALSE(decoded.value().address_of(SpId{sp}).empty());
}

TEST_F(TwoNodes, ExchangeDataAfterTheJobMap) {
  for (const std::uint32_t services : {1U, 2U}) {
    for (auto& clients : clients_) clients.clear();
    for (auto& node : nodes_) node.reset();
    start(services);
    introduce();
    for (std::uint32_t i = 0; i < 4; ++i) EXPECT_TRUE(rank(i).statistics().wire_routes.empty());
    expect_alltoall(1, 1000);
    for (std::uint32_t i = 0; i < 4; ++i) {
      const auto routes = rank(i).statistics().wire_routes;
      ASSERT_EQ(routes.size(), 1U);
      EXPECT_NE(transports_of(routes[0]).find('/'), std::string::npos) << text_of(routes[0]);
    }
    expect_alltoall(2, 300000);
    expect_alltoall(3, 1);
  }
}

struct Malformed {
  std::string name;
  std::function<void(std::vector<std::byte>& descriptors, std::uint32_t& node)> spoil;
};

TEST_F(TwoNodes, MalformedJobMapIsRefused) {
  const std::vector<Malformed> attacks{
      {"empty of sense", [](auto& descriptors, auto&) { std::ranges::fill(descriptors, std::byte{0xA5}); }},
      {"cut", [](auto& descriptors, auto&) { descriptors.resize(descriptors.size() - 1); }},
      {"one byte", [](auto& descriptors, auto&) { descriptors.resize(1); }},
      {"a node that is not in it", [](auto&, auto& node) { node = 2; }},
      {"no node at all", [](auto&, auto& node) { node = 0xFFFFFFFF; }},
      {"the other node's place", [](auto&, auto& node) { node = 1; }},
      {"a node twice",
       [](auto& descriptors, auto&) {
         const std::vector<std::byte> copy = descriptors;
         descriptors.insert(descriptors.end(), copy.begin(), copy.end());
       }},
  };
  for (const Malformed& attack : attacks) {
    SCOPED_TRACE(attack.name);
    for (auto& clients : clients_) clients.clear();
    for (auto& node : nodes_) node.reset();
    start(1);
    std::vector<std::byte> descriptors = job_map();
    std::uint32_t node = 0;
    attack.spoil(descriptors, node);
    const Status taken = rank(0).control().take_job_map(descriptors, node, kTimeout);
    ASSERT_FALSE(taken);
    EXPECT_NE(taken.error().find("job map"), std::string::npos) << taken.error();
    expect_alive(0);
    expect_alive(1);
    expect_alive(2);
  }
}

// A valid job map that puts a rank of this node elsewhere.
TEST_F(TwoNodes, JobMapThatMisplacesRanksIsRefused) {
  start(2);
  std::vector<std::byte> descriptors;
  auto decoded = decode_job_map(job_map(), 4);
  ASSERT_TRUE(decoded) << decoded.error();
  std::swap(decoded.value().nodes[0].ranks[0].sp, decoded.value().nodes[0].ranks[1].sp);
  for (const NodeDescriptor& descriptor : decoded.value().nodes) encode_descriptor(descriptor, descriptors);
  const Status taken = rank(0).control().take_job_map(descriptors, 0, kTimeout);
  ASSERT_FALSE(taken);
  EXPECT_NE(taken.error().find("job map"), std::string::npos) << taken.error();
  expect_alive(0);
  expect_alive(1);
}

TEST_F(TwoNodes, ASecondJobMapCostsTheConnection) {
  start();
  introduce();
  EXPECT_FALSE(rank(0).control().take_job_map(job_map(), 0, kTimeout));
  EXPECT_TRUE(rank(0).fatal());
  expect_alive(1);
  expect_alive(2);
}

TEST_F(TwoNodes, JobMapFromAnotherRankThanTheLeaderCostsItsConnection) {
  start();
  EXPECT_FALSE(rank(1).control().take_job_map(job_map(), 0, kTimeout));
  EXPECT_TRUE(rank(1).fatal());
  expect_alive(0);
  introduce();
  expect_alive(2);
}

TEST(OneNode, AJobMapCostsTheConnection) {
  Node node(NodeOptions{});
  auto clients = node.attach_all();
  ASSERT_TRUE(clients[0] && clients[1]);
  const std::vector<std::byte> some(100);
  EXPECT_FALSE(clients[0].value()->control().take_job_map(some, 0, kTimeout));
  EXPECT_TRUE(clients[0].value()->fatal());
  EXPECT_FALSE(clients[1].value()->fatal());
}

}  // namespace
}  // namespace outrigger::testing
