#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstring>
#include <set>

#include "base/unique_fd.hpp"
#include "client/memory/program_memory.hpp"
#include "fake_node.hpp"

namespace outrigger::client::test {
namespace {

class Memory : public ::testing::Test {
 protected:
  Memory() : client_(node_.attach()) {}
  FakeNode node_;
  AttachedEndpoint client_;
};

TEST_F(Memory, IsPageAlignedAndSharedOnceItIsUsed) {
  auto* memory = static_cast<std::byte*>(client_->heap().allocate_for_program(5000));
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 4096, 0U);
  memory[0] = std::byte{1};
  EXPECT_EQ(node_.regions_ever(), 0U);  // nothing has been announced
  const RegionId region = client_->region_of(memory, 5000);
  ASSERT_NE(region, kPrivateRegion);
  std::byte* seen = node_.at(LocalRef{region.value(), 0, reinterpret_cast<std::uintptr_t>(memory)}, 5000);
  ASSERT_NE(seen, nullptr);
  EXPECT_EQ(seen[0], std::byte{1});
  memory[4999] = std::byte{7};
  EXPECT_EQ(seen[4999], std::byte{7});
  seen[0] = std::byte{9};
  EXPECT_EQ(memory[0], std::byte{9});
  auto* another = static_cast<std::byte*>(client_->heap().allocate_for_program(5000));
  EXPECT_EQ(client_->region_of(another, 5000), region);
  EXPECT_EQ(node_.regions_ever(), 1U);
  EXPECT_TRUE(release(memory));
  EXPECT_TRUE(release(another));
}

TEST_F(Memory, IsSharedByTheFirstOperationThatUsesIt) {
  const auto group = client_->define_group(GroupId{1, 1}, world(8), GroupRank(3));
  auto* memory = static_cast<std::byte*>(client_->heap().allocate_for_program(std::size_t{16} << 10));
  OperationRequest request;
  request.group = group;
  request.send = BufferLayout{memory, 64, 64, {}};
  request.receive = BufferLayout{memory + 512, 64, 64, {}};
  EXPECT_FALSE(client_->heap().has_seen_operation());
  const auto operation = client_->post(request);
  EXPECT_TRUE(client_->heap().has_seen_operation());
  const SlotIndex slot = node_.take_post().value();
  EXPECT_NE(node_.body(slot).send.base.region, kPrivateRegion.value());
  EXPECT_EQ(node_.body(slot).send.base.region, node_.body(slot).receive.base.region);
  node_.complete(slot);
  EXPECT_TRUE(client_->poll(*operation));
  EXPECT_TRUE(release(memory));
}

TEST_F(Memory, RegionOfKnowsTheBounds) {
  auto* memory = static_cast<std::byte*>(client_->heap().allocate_for_program(8192));
  const RegionId region = client_->region_of(memory, 8192);
  EXPECT_NE(region, kPrivateRegion);
  EXPECT_EQ(client_->region_of(memory + 8191, 1), region);
  EXPECT_EQ(client_->region_of(memory, std::uint64_t{1} << 60), kPrivateRegion);
  EXPECT_EQ(client_->region_of(memory + 1, std::numeric_limits<std::uint64_t>::max()), kPrivateRegion);
  int on_stack = 0;
  EXPECT_EQ(client_->region_of(&on_stack, sizeof(on_stack)), kPrivateRegion);
  EXPECT_TRUE(release(memory));
}

TEST_F(Memory, ReleaseOfForeignMemoryDoesNothing) {
  int on_stack = 0;
  EXPECT_FALSE(release(&on_stack));
  EXPECT_FALSE(release(nullptr));
  auto* memory = static_cast<std::byte*>(client_->heap().allocate_for_program(4096));
  EXPECT_FALSE(release(memory + 64));
  EXPECT_TRUE(release(memory));
  EXPECT_FALSE(release(memory));
  void* staging = client_->staging().allocate(1 << 20);
  EXPECT_FALSE(release(staging));
  client_->staging().release(staging);
}

TEST_F(Memory, ImpossibleSizesAreRefused) {
  EXPECT_EQ(client_->heap().allocate_for_program(0), nullptr);
  EXPECT_EQ(client_->heap().allocate_for_program(std::numeric_limits<std::uint64_t>::max()), nullptr);
  EXPECT_EQ(client_->heap().allocate_for_program(std::uint64_t{1} << 55), nullptr);
}

TEST_F(Memory, RefusedByTheServiceProcessesIsPrivate) {
  node_.set_accept_regions(false);
  auto* memory = static_cast<std::byte*>(client_->heap().allocate_for_program(4096));
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(client_->region_of(memory, 4096), kPrivateRegion);
  EXPECT_EQ(client_->usage().regions, 0U);
  EXPECT_TRUE(release(memory));
}

TEST_F(Memory, LeavesDescriptorsToTheProgram) {
  const auto next_descriptor = [] { return UniqueFd(::memfd_create("probe", MFD_CLOEXEC)).get(); };
  std::vector<void*> all{client_->heap().allocate_for_program(4096)};
  EXPECT_NE(client_->region_of(all.front(), 1), kPrivateRegion);
  const int before = next_descriptor();
  for (int i = 0; i < 1000; ++i) all.push_back(client_->heap().allocate_for_program(40'000));
  EXPECT_EQ(next_descriptor(), before);
  EXPECT_EQ(client_->usage().regions, 1U);
  for (void* memory : all) {
    EXPECT_NE(client_->region_of(memory, 4096), kPrivateRegion);
    EXPECT_TRUE(release(memory));
  }
  EXPECT_EQ(node_.regions_ever(), 1U);
}

TEST_F(Memory, TheLimitOnFileSizesIsNoSignal) {
  void* before_it = client_->heap().allocate_for_program(4096);
  ASSERT_NE(before_it, nullptr);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 4096;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  auto* memory = static_cast<std::byte*>(client_->heap().allocate_for_program(1 << 20));
  if (memory != nullptr) std::memset(memory, 1, 1 << 20);
  void* staging = client_->staging().allocate(1 << 20);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_NE(staging, nullptr);
  EXPECT_EQ(client_->region_of(staging, 1 << 20), kPrivateRegion);
  client_->staging().release(staging);
  EXPECT_TRUE(release(memory));
  EXPECT_TRUE(release(before_it));
}

// No descriptors can be opened during its life.
class NoDescriptors {
 public:
  NoDescriptors() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit none = before_;
    none.rlim_cur = 0;
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;
  ~NoDescriptors() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_{};
};

// The first is refused by this process's descriptor limit, the others by its keeper's.
TEST_F(Memory, StagingNeedsNoDescriptor) {
  RankEndpoint& client = *client_;  // the sanitizers look at the fixture through a pipe, which takes descriptors
  const auto expect_private = [&client](std::uint64_t bytes) {
    void* staging = client.staging().allocate(bytes);
    ASSERT_NE(staging, nullptr);
    EXPECT_EQ(client.region_of(staging, bytes), kPrivateRegion);
    std::memset(staging, 1, bytes);
    EXPECT_NE(client.usage().staging_bytes, 0U);
    client.staging().release(staging);
    EXPECT_EQ(client.usage().staging_bytes, 0U);
  };
  {
    const NoDescriptors none;
    expect_private(100);
    expect_private(3 << 20);
  }
  node_.set_accept_regions(false);
  expect_private(100);
  expect_private(3 << 20);
  EXPECT_EQ(client_->usage().regions, 0U);
  node_.set_accept_regions(true);
  EXPECT_TRUE(eventually([this] {  // it is tried again now and then
    void* staging = client_->staging().allocate(100);
    const bool mapped = client_->region_of(staging, 100) != kPrivateRegion;
    client_->staging().release(staging);
    return mapped;
  }));
}

TEST(MemoryWithoutPrivateReach, HasNoStagingWithoutDescriptors) {
  FakeNodeOptions options;
  options.reach = kReachMapped;
  const FakeNode node(options);
  const auto client = node.attach();
  {
    const NoDescriptors none;
    EXPECT_EQ(client->staging().allocate(100), nullptr);
  }
  void* staging = client->staging().allocate(100);  // as soon as there are some
  EXPECT_NE(staging, nullptr);
  client->staging().release(staging);
}

TEST_F(Memory, StagingIsReusedAndAligned) {
  std::set<void*> seen;
  for (int round = 0; round < 100; ++round) {
    void* small = client_->staging().allocate(100);
    void* middle = client_->staging().allocate(100000);
    void* large = client_->staging().allocate(3 << 20);
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
    client_->staging().release(small);
    client_->staging().release(middle);
    client_->staging().release(large);
  }
  EXPECT_EQ(seen.size(), 3U);
  EXPECT_EQ(client_->usage().staging_bytes, 0U);
  EXPECT_EQ(node_.regions_ever(), 2U);
}

TEST_F(Memory, IdleStagingIsBounded) {
  std::vector<void*> all;
  for (int i = 0; i < 20; ++i) all.push_back(client_->staging().allocate(8 << 20));
  EXPECT_EQ(node_.regions(), 20U);
  for (void* memory : all) client_->staging().release(memory);
  EXPECT_TRUE(eventually([&] { return node_.regions() == 8; }));  // 64 MiB
  EXPECT_EQ(client_->usage().staging_bytes, 0U);
}

TEST_F(Memory, StagingOfOthersIsIgnored) {
  int on_stack = 0;
  client_->staging().release(&on_stack);
  client_->staging().release(nullptr);
  EXPECT_EQ(client_->usage().staging_bytes, 0U);
}

TEST(MemoryAfterTheClient, StaysReadable) {
  FakeNode node;
  auto client = node.attach();
  auto* memory = static_cast<std::byte*>(client->heap().allocate_for_program(4096));
  EXPECT_NE(client->region_of(memory, 4096), kPrivateRegion);
  memory[17] = std::byte{5};
  client.reset();
  EXPECT_EQ(memory[17], std::byte{5});
  memory[18] = std::byte{6};
  EXPECT_EQ(memory[18], std::byte{6});
  EXPECT_TRUE(release(memory));
  EXPECT_FALSE(release(memory));
}

TEST(MemoryWithoutMappedReach, StaysWithTheProgram) {
  FakeNodeOptions options;
  options.reach = kReachCma;
  const FakeNode node(options);
  const auto client = node.attach();
  EXPECT_EQ(client->heap().allocate_for_program(4096), nullptr);
  void* staging = client->staging().allocate(4096);
  EXPECT_NE(staging, nullptr);
  client->staging().release(staging);
}

TEST(MemoryOfASilentKeeper, IsPrivateAfterATime) {
  FakeNodeOptions options;
  options.answer_regions = false;
  FakeNode node(options);
  const auto client = node.attach();
  const auto begin = std::chrono::steady_clock::now();
  void* memory = client->heap().allocate_for_program(4096);
  EXPECT_EQ(client->region_of(memory, 4096), kPrivateRegion);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_TRUE(eventually([&] { return node.regions() == 0; }));  // dropped again
  EXPECT_EQ(client->usage().regions, 0U);
  EXPECT_TRUE(release(memory));
}

}  // namespace
}  // namespace outrigger::client::test
