#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <thread>

#include "fake_node.hpp"

namespace outrigger::client::test {
namespace {

TEST(Attach, IsWelcomedAndSaysGoodbye) {
  FakeNode node;
  auto client = node.attach();
  ASSERT_NE(client, nullptr);
  EXPECT_TRUE(client->reached_by(kReachCma));
  EXPECT_EQ(client->welcome().sp_count, 1U);
  EXPECT_NE(node.header().rank_base_address.load(), 0U);
  client.reset();
  EXPECT_TRUE(eventually([&] { return node.said_goodbye(); }));
}

TEST(Attach, HelloTellsRankSizesSecretAndAffinity) {
  FakeNode node;
  const auto client = node.attach();
  const HelloBody hello = node.hello().value();
  EXPECT_EQ(hello.world_rank, 3U);
  EXPECT_EQ(hello.world_size, 8U);
  EXPECT_EQ(hello.local_rank, 3U);
  EXPECT_EQ(hello.local_size, 8U);
  EXPECT_EQ(hello.secret[5], 0x5A);
  cpu_set_t mine;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(mine), &mine), 0);
  for (std::size_t cpu = 0; cpu < 64; ++cpu) {
    EXPECT_EQ((hello.affinity[0] >> cpu & 1U) != 0, CPU_ISSET(cpu, &mine) != 0) << cpu;
  }
}

TEST(Attach, RefusalGivesTheReason) {
  FakeNodeOptions options;
  options.refusal = "no cores are left";
  const FakeNode node(options);
  const auto client = attach(node.attach_options());
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.error(), "the keeper refused this rank: no cores are left");
}

TEST(Attach, WrongSecretIsRefused) {
  const FakeNode node;
  AttachOptions options = node.attach_options();
  options.keeper.secret[0] ^= 1;
  const auto client = attach(options);
  ASSERT_FALSE(client.ok());
  EXPECT_NE(client.error().find("wrong secret"), std::string::npos);
}

TEST(Attach, SilentKeeperTimesOut) {
  FakeNodeOptions options;
  options.answer_hello = false;
  const FakeNode node(options);
  const auto begin = std::chrono::steady_clock::now();
  const auto client = attach(node.attach_options(200));
  ASSERT_FALSE(client.ok());
  EXPECT_NE(client.error().find("did not answer within 200 ms"), std::string::npos) << client.error();
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(200));
}

// At once, not after the timeout: an address is known only after a listener existed.
TEST(Attach, NobodyListensIsKnownAtOnce) {
  AttachOptions options;
  options.init_timeout_ms = 30000;
  const std::string name = "outrigger-nobody-is-here";
  const auto begin = std::chrono::steady_clock::now();
  std::copy(name.begin(), name.end(), options.keeper.name.begin());
  const auto client = attach(options);
  ASSERT_FALSE(client.ok());
  EXPECT_NE(client.error().find("no keeper listens at @" + name), std::string::npos) << client.error();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(Attach, EmptyAddressIsAnError) {
  EXPECT_FALSE(attach(AttachOptions{}).ok());
}

TEST(Attach, ProbeThatWasNotTouchedMeansNoCma) {
  FakeNodeOptions options;
  options.touch_probe = false;
  const FakeNode node(options);
  const auto client = node.attach();
  ASSERT_NE(client, nullptr);
  EXPECT_FALSE(client->reached_by(kReachCma));
}

TEST(Attach, UnsealedSegmentIsNotUsed) {
  FakeNodeOptions options;
  options.seal_segment = false;
  const FakeNode node(options);
  const auto client = attach(node.attach_options());
  ASSERT_FALSE(client.ok());
  EXPECT_NE(client.error().find("not sealed"), std::string::npos);
}

TEST(Attach, SegmentOfWrongSizeIsNotUsed) {
  FakeNodeOptions options;
  options.segment_bytes = SegmentView::segment_bytes() + 4096;
  const FakeNode node(options);
  const auto client = attach(node.attach_options());
  ASSERT_FALSE(client.ok());
  EXPECT_NE(client.error().find("wrong size"), std::string::npos);
}

TEST(Attach, SegmentOfAnotherRankIsNotUsed) {
  FakeNodeOptions options;
  options.segment_rank = 4;
  const FakeNode node(options);
  const auto client = attach(node.attach_options());
  ASSERT_FALSE(client.ok());
  EXPECT_NE(client.error().find("not for rank 3"), std::string::npos);
}

TEST(Attach, KeeperThatEndsIsNoticed) {
  FakeNode node;
  const auto client = node.attach();
  EXPECT_EQ(client->fatal(), std::nullopt);
  node.hang_up();
  EXPECT_TRUE(eventually([&] { return client->fatal().has_value(); }));
  EXPECT_EQ(client->fatal(), "the keeper of this node is gone (killed?), and so is the service process of this rank");
  void* memory = client->heap().allocate_for_program(4096);
  EXPECT_EQ(client->region_of(memory, 4096), kPrivateRegion);
  EXPECT_TRUE(release(memory));
}

TEST(Attach, FatalTextOfTheKeeperComesFirst) {
  FakeNode node;
  const auto client = node.attach();
  node.set_fatal("service process 0 was killed by signal 9 (Killed)");
  node.hang_up();
  EXPECT_EQ(client->fatal(), "service process 0 was killed by signal 9 (Killed)");
}

TEST(Attach, FatalTextWithoutEndIsCut) {
  FakeNode node;
  const auto client = node.attach();
  node.set_fatal(std::string(kFatalTextBytes, 'x'));
  EXPECT_EQ(client->fatal(), std::string(kFatalTextBytes, 'x'));
}

TEST(Attach, MessageThatIsNotForRanksEndsTheConnection) {
  FakeNode node;
  const auto client = node.attach();
  const RankBody body;
  node.send(ControlKind::rank_left, std::as_bytes(std::span<const RankBody, 1>(&body, 1)));
  EXPECT_TRUE(eventually([&] { return client->fatal().has_value(); }));
  EXPECT_NE(client->fatal()->find("not for ranks"), std::string::npos);
}

}  // namespace
}  // namespace outrigger::client::test
