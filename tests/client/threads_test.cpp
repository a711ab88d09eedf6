#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "fake_node.hpp"

namespace outrigger::client::test {
namespace {

TEST(Threads, PostPollAllocateAndForgetTogether) {
  FakeNode node;
  const auto client = node.attach();
  node.start_serving(true);
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::array<std::byte, 8> bytes{};
      for (std::uint64_t round = 0; round < 60; ++round) {
        const auto group = client->define_group(GroupId{static_cast<std::uint64_t>(t), round}, world(8), GroupRank(3));
        ASSERT_NE(group, nullptr);
        void* memory = round % 4 == 0 ? client->heap().allocate_for_program(4096) : nullptr;
        void* staging = client->staging().allocate(std::uint64_t{64} << (round % 16));
        std::vector<PendingOperationPtr> operations;
        for (std::uint64_t i = 0; i < 16; ++i) {
          OperationRequest request;
          request.group = group;
          request.sequence = i;
          request.send = BufferLayout{memory != nullptr ? memory : bytes.data(), 1, 1, {}};
          request.receive = BufferLayout{staging, 1, 1, {}};
          operations.push_back(client->post(request));
          ASSERT_NE(operations.back(), nullptr);
        }
        for (auto& operation : operations) {
          while (!client->poll(*operation)) client->wait_for_completion(std::chrono::milliseconds(1));
          EXPECT_EQ(operation->result.status, CompletionStatus::ok);
        }
        EXPECT_EQ(client->fatal(), std::nullopt);
        client->staging().release(staging);
        EXPECT_EQ(release(memory), memory != nullptr);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(eventually([&] { return client->usage().slots == 0; }));
  EXPECT_EQ(client->usage().argument_bytes, 0U);
  EXPECT_EQ(client->usage().staging_bytes, 0U);
  EXPECT_EQ(node.served(), kThreads * 60U * 17U);
}

TEST(Threads, OneOperationPolledByMany) {
  FakeNode node;
  const auto client = node.attach();
  const auto group = client->define_group(GroupId{1, 1}, world(8), GroupRank(3));
  std::array<std::byte, 8> bytes{};
  OperationRequest request;
  request.group = group;
  request.send = BufferLayout{bytes.data(), 1, 1, {}};
  for (int round = 0; round < 200; ++round) {
    const auto operation = client->post(request);
    std::vector<std::thread> pollers;
    for (int t = 0; t < 3; ++t) pollers.emplace_back([&] { EXPECT_TRUE(finish(*client, *operation)); });
    node.complete(node.take_post().value());
    for (std::thread& poller : pollers) poller.join();
    EXPECT_EQ(client->usage().slots, 0U);
  }
}

}  // namespace
}  // namespace outrigger::client::test
