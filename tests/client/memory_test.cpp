#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <set>

#include "fake_node.hpp"

namespace outrigger::client::test {
namespace {

class Memory : public ::testing::Test {
 protected:
  Memory() : client_(node_.attach()) {}
  FakeNode node_;
  std::unique_ptr<Client> client_;
};

TEST_F(Memory, IsSharedZeroedAndPageAligned) {
  auto* memory = static_cast<std::byte*>(client_->allocate(5000));
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 4096, 0U);
  for (std::size_t i = 0; i < 5000; ++i) ASSERT_EQ(memory[i], std::byte{0});
  const RegionId region = client_->region_of(memory, 5000);
  ASSERT_NE(region, kPrivateRegion);
  std::byte* seen = node_.at(LocalRef{region.value(), 0, reinterpret_cast<std::uintptr_t>(memory)}, 5000);
  ASSERT_NE(seen, nullptr);
  memory[4999] = std::byte{7};
  EXPECT_EQ(seen[4999], std::byte{7});
  seen[0] = std::byte{9};
  EXPECT_EQ(memory[0], std::byte{9});
  EXPECT_TRUE(client_->release(memory));
  EXPECT_TRUE(eventually([&] { return node_.regions() == 0; }));
}

TEST_F(Memory, RegionOfKnowsTheBounds) {
  auto* memory = static_cast<std::byte*>(client_->allocate(8192));
  const RegionId region = client_->region_of(memory, 8192);
  EXPECT_NE(region, kPrivateRegion);
  EXPECT_EQ(client_->region_of(memory + 8191, 1), region);
  EXPECT_EQ(client_->region_of(memory - 1, 1), kPrivateRegion);
  EXPECT_EQ(client_->region_of(memory, 8193), kPrivateRegion);
  EXPECT_EQ(client_->region_of(memory + 8192, 1), kPrivateRegion);
  EXPECT_EQ(client_->region_of(memory + 1, std::numeric_limits<std::uint64_t>::max()), kPrivateRegion);
  int on_stack = 0;
  EXPECT_EQ(client_->region_of(&on_stack, sizeof(on_stack)), kPrivateRegion);
  EXPECT_TRUE(client_->release(memory));
  EXPECT_EQ(client_->region_of(memory, 1), kPrivateRegion);
}

TEST_F(Memory, ReleaseOfForeignMemoryDoesNothing) {
  int on_stack = 0;
  EXPECT_FALSE(client_->release(&on_stack));
  EXPECT_FALSE(client_->release(nullptr));
  auto* memory = static_cast<std::byte*>(client_->allocate(4096));
  EXPECT_FALSE(client_->release(memory + 64));
  EXPECT_TRUE(client_->release(memory));
  EXPECT_FALSE(client_->release(memory));
  void* staging = client_->allocate_staging(1 << 20);
  EXPECT_FALSE(client_->release(staging));
  client_->release_staging(staging);
}

TEST_F(Memory, ImpossibleSizesAreRefused) {
  EXPECT_EQ(client_->allocate(0), nullptr);
  EXPECT_EQ(client_->allocate(std::numeric_limits<std::uint64_t>::max()), nullptr);
  EXPECT_EQ(client_->allocate(std::uint64_t{1} << 55), nullptr);
  EXPECT_EQ(client_->usage().regions, 0U);
}

TEST_F(Memory, RefusedByTheServiceProcessesIsNull) {
  node_.set_accept_regions(false);
  EXPECT_EQ(client_->allocate(4096), nullptr);
  EXPECT_EQ(client_->usage().regions, 0U);
  node_.set_accept_regions(true);
  void* memory = client_->allocate(4096);
  EXPECT_NE(memory, nullptr);
  EXPECT_TRUE(client_->release(memory));
}

TEST_F(Memory, LeavesDescriptorsToTheProgram) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 256;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &small), 0);
  std::vector<void*> all;
  for (int i = 0; i < 200; ++i) {
    void* memory = client_->allocate(4096);
    if (memory == nullptr) break;
    all.push_back(memory);
  }
  EXPECT_GT(all.size(), 32U);
  EXPECT_LT(all.size(), 129U);
  // Staging keeps no descriptor: it is to be had however many the program has taken.
  std::vector<void*> staging;
  for (int i = 0; i < 200; ++i) {
    staging.push_back(client_->allocate_staging(1 << 20));
    ASSERT_NE(staging.back(), nullptr);
  }
  for (void* memory : staging) client_->release_staging(memory);
  const std::size_t idle = client_->usage().regions - all.size();
  for (void* memory : all) EXPECT_TRUE(client_->release(memory));
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(client_->usage().regions, idle);
}

TEST_F(Memory, BeyondTheLimitOnFileSizesIsNullAndNotASignal) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 4096;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  void* too_much = client_->allocate(8192);
  void* enough = client_->allocate(4096);
  void* staging = client_->allocate_staging(1 << 20);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(too_much, nullptr);
  EXPECT_NE(enough, nullptr);
  EXPECT_EQ(staging, nullptr);
  EXPECT_TRUE(client_->release(enough));
  void* afterwards = client_->allocate(8192);
  EXPECT_NE(afterwards, nullptr);
  EXPECT_TRUE(client_->release(afterwards));
}

TEST_F(Memory, StagingIsReusedAndAligned) {
  std::set<void*> seen;
  for (int round = 0; round < 100; ++round) {
    void* small = client_->allocate_staging(100);
    void* middle = client_->allocate_staging(100000);
    void* large = client_->allocate_staging(3 << 20);
    for (void* memory : {small, middle, large}) {
      ASSERT_NE(memory, nullptr);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0U);
      seen.insert(memory);
    }
    std::memset(small, 1, 100);
    std::memset(middle, 2, 100000);
    std::memset(large, 3, 3 << 20);
    EXPECT_NE(client_->region_of(small, 100), kPrivateRegion);
    EXPECT_NE(client_->region_of(large, 3 << 20), kPrivateRegion);
    EXPECT_EQ(static_cast<unsigned char*>(small)[99], 1);
    EXPECT_EQ(static_cast<unsigned char*>(middle)[99999], 2);
    client_->release_staging(small);
    client_->release_staging(middle);
    client_->release_staging(large);
  }
  EXPECT_EQ(seen.size(), 3U);
  EXPECT_EQ(client_->usage().staging_bytes, 0U);
  EXPECT_EQ(node_.regions_ever(), 2U);
}

TEST_F(Memory, IdleStagingIsBounded) {
  std::vector<void*> all;
  for (int i = 0; i < 20; ++i) all.push_back(client_->allocate_staging(8 << 20));
  EXPECT_EQ(node_.regions(), 20U);
  for (void* memory : all) client_->release_staging(memory);
  EXPECT_TRUE(eventually([&] { return node_.regions() == 8; }));  // 64 MiB
  EXPECT_EQ(client_->usage().staging_bytes, 0U);
}

TEST_F(Memory, StagingOfOthersIsIgnored) {
  int on_stack = 0;
  client_->release_staging(&on_stack);
  client_->release_staging(nullptr);
  EXPECT_EQ(client_->usage().staging_bytes, 0U);
}

TEST(MemoryAfterTheClient, StaysReadable) {
  FakeNode node;
  auto client = node.attach();
  auto* memory = static_cast<std::byte*>(client->allocate(4096));
  memory[17] = std::byte{5};
  client.reset();
  EXPECT_EQ(memory[17], std::byte{5});
  memory[18] = std::byte{6};
  EXPECT_EQ(memory[18], std::byte{6});
}

TEST(MemoryWithoutMappedReach, StaysWithTheProgram) {
  FakeNodeOptions options;
  options.reach = kReachCma;
  const FakeNode node(options);
  const auto client = node.attach();
  EXPECT_EQ(client->allocate(4096), nullptr);
  void* staging = client->allocate_staging(4096);
  EXPECT_NE(staging, nullptr);
  client->release_staging(staging);
}

TEST(MemoryOfASilentKeeper, IsNullAfterATime) {
  FakeNodeOptions options;
  options.answer_regions = false;
  FakeNode node(options);
  const auto client = node.attach();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(client->allocate(4096), nullptr);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_TRUE(eventually([&] { return node.regions() == 0; }));  // dropped again
  EXPECT_EQ(client->usage().regions, 0U);
}

}  // namespace
}  // namespace outrigger::client::test
