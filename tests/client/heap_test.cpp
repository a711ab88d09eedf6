// The shared heap as the client sees it: a generation is a region, a fork begins another.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/shared_memory.hpp"
#include "fake_node.hpp"
#include "protocol/shared/shared_heap.hpp"

namespace outrigger::client::test::shared_heap {
namespace {

constexpr std::uint64_t kHeapBytes = 1 << 20;
constexpr std::uint64_t kBlock = 256;
constexpr std::uint32_t kSize = 8;

struct Generation {
  UniqueFd fd;
  Mapping mapping;
};

Generation make_generation() {
  Result<UniqueFd> fd = create_sealed_memory("test-heap", kHeapBytes, Backing::on_touch);
  Result<Mapping> mapping = Mapping::map(fd.value().get(), kHeapBytes);
  return {std::move(fd).value(), std::move(mapping).value()};
}

struct Held {
  std::uintptr_t begin;
  std::uint64_t bytes;
};

// Results of the heap's functions. One test at a time.
std::atomic<std::uint64_t> serial{0};
Generation current;
std::vector<Held> held;

bool tell_generation(SharedHeapGeneration* filled) {
  if (serial == 0) return false;
  *filled = {serial, reinterpret_cast<std::uintptr_t>(current.mapping.base()), kHeapBytes, ::dup(current.fd.get())};
  return true;
}

constexpr SharedHeap kFakeHeap{
    kSharedHeapVersion, [] { return serial.load(); },
    tell_generation,    [] { return SharedHeapCounts{}; },
    [] { return ""; },  [](std::uintptr_t begin, std::uint64_t bytes) { held.push_back({begin, bytes}); }};

class Heap : public ::testing::Test {
 protected:
  Heap() : client_(node_.attach()) {
    group_ = client_->define_group(GroupId{7, 9}, world(kSize), GroupRank(3));
    begin_generation();
    held.clear();
  }

  static void begin_generation() {
    current = make_generation();
    static std::uint64_t last = 0;
    serial = ++last;
  }

  // Posts an operation from and to the generation's memory; `region` gets the send block's region.
  PendingOperationPtr post(const std::byte* base, std::uint32_t& region) {
    OperationRequest request;
    request.group = group_;
    request.sequence = ++sequence_;
    request.send = BufferLayout{base, kBlock, kBlock, {}};
    request.receive = BufferLayout{base + kSize * kBlock, kBlock, kBlock, {}};
    PendingOperationPtr operation = client_->post(request);
    slot_ = node_.take_post();
    if (slot_) region = node_.body(*slot_).send.base.region;
    return operation;
  }
  void finish(PendingOperation& operation) {
    node_.complete(*slot_);
    EXPECT_TRUE(client_->poll(operation));
  }

  FakeNode node_;
  AttachedEndpoint client_;
  std::shared_ptr<const Group> group_;
  std::uint64_t sequence_ = 0;
  std::optional<SlotIndex> slot_;
};

TEST_F(Heap, IsARegionAsAWhole) {
  ASSERT_TRUE(client_->heap().share(kFakeHeap));
  EXPECT_EQ(node_.regions(), 1U);
  const std::byte* base = current.mapping.base();
  EXPECT_NE(client_->region_of(base, kHeapBytes), kPrivateRegion);
  EXPECT_EQ(client_->region_of(base, kHeapBytes + 1), kPrivateRegion);
  std::uint32_t region = 0;
  const auto operation = post(base, region);
  ASSERT_NE(operation, nullptr);
  EXPECT_EQ(region, client_->region_of(base, 1).value());
  finish(*operation);
  client_.reset();
  current.mapping.base()[0] = std::byte{1};  // the client does not unmap the heap's memory
}

TEST_F(Heap, IsNotSharedWhereServiceProcessesCannotMapIt) {
  node_.set_accept_regions(false);
  EXPECT_FALSE(client_->heap().share(kFakeHeap));
  std::uint32_t region = 99;
  const auto operation = post(current.mapping.base(), region);
  EXPECT_EQ(region, kPrivateRegion.value());
  finish(*operation);
}

TEST_F(Heap, WithoutAGenerationEverythingIsPrivate) {
  ASSERT_TRUE(client_->heap().share(kFakeHeap));
  serial = 0;
  std::uint32_t region = 99;
  const auto operation = post(current.mapping.base(), region);
  EXPECT_EQ(region, kPrivateRegion.value());
  finish(*operation);
  EXPECT_TRUE(eventually([&] { return node_.regions() == 0; }));
}

TEST_F(Heap, ANewGenerationIsMappedByAndBy) {
  ASSERT_TRUE(client_->heap().share(kFakeHeap));
  std::uint32_t region = 0;
  const auto first = post(current.mapping.base(), region);
  const std::optional<SlotIndex> first_slot = slot_;
  ASSERT_NE(region, kPrivateRegion.value());
  const std::uint32_t former_region = region;
  const Generation former = std::move(current);
  begin_generation();

  // The former generation is private for new posts, and still mapped for earlier ones.
  const auto second = post(former.mapping.base(), region);
  EXPECT_EQ(region, kPrivateRegion.value());
  finish(*second);
  EXPECT_TRUE(eventually([&] { return node_.regions() == 2; }));
  EXPECT_NE(node_.at(LocalRef{former_region, 0, reinterpret_cast<std::uintptr_t>(former.mapping.base())}, 1), nullptr);

  node_.complete(*first_slot);
  EXPECT_TRUE(client_->poll(*first));
  EXPECT_TRUE(eventually([&] {
    const auto next = post(current.mapping.base(), region);
    finish(*next);
    return region != kPrivateRegion.value();
  }));
  EXPECT_NE(region, former_region);
  EXPECT_TRUE(eventually([&] { return node_.regions() == 1; }));
}

// A buffer that is still found mapped would not be staged, although its post finds it private.
TEST_F(Heap, AForkEndsAGenerationBeforeTheNextPost) {
  ASSERT_TRUE(client_->heap().share(kFakeHeap));
  const Generation former = std::move(current);
  begin_generation();
  ASSERT_NE(client_->region_of(former.mapping.base(), 1), kPrivateRegion);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(client_->region_of(former.mapping.base(), 1), kPrivateRegion);
}

TEST_F(Heap, AForkIsToldWhatIsUnderWay) {
  ASSERT_TRUE(client_->heap().share(kFakeHeap));
  const std::byte* base = current.mapping.base();
  std::uint32_t region = 0;
  const auto operation = post(base, region);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  ASSERT_EQ(held.size(), 2U);
  EXPECT_EQ(held[0].begin, reinterpret_cast<std::uintptr_t>(base));
  EXPECT_EQ(held[1].begin, reinterpret_cast<std::uintptr_t>(base + kSize * kBlock));
  EXPECT_EQ(held[0].bytes, kSize * kBlock);
  held.clear();
  finish(*operation);
  const pid_t another = ::fork();
  if (another == 0) ::_exit(0);
  ::waitpid(another, nullptr, 0);
  EXPECT_TRUE(held.empty());
}

}  // namespace
}  // namespace outrigger::client::test::shared_heap
