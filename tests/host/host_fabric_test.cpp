#include "fabric/host/host_fabric.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "fabric/host/lanes/cma.hpp"
#include "fabric_fixture.hpp"
#include "ring_memory.hpp"

namespace outrigger::host_fabric_test {
namespace {

using fabric::copy_bytes;
using fabric::CopyKernel;
using fabric::HostFabric;
using fabric::MoveStatus;
using testing::Ended;
using testing::kSegmentBase;
using testing::make_rank;
using testing::map_fresh;

constexpr WorldRank kLeft{0};
constexpr WorldRank kRight{1};
constexpr RegionId kRegion{2};
constexpr std::uint64_t kLeftBase = 0x1000'0000;
constexpr std::uint64_t kRightBase = 0x2000'0000;
constexpr std::uint64_t kBytes = 1 << 20;

// A process with private memory of `kBytes`: a child that does nothing.
class Child {
 public:
  Child() {
    memory_ =
        static_cast<std::byte*>(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (std::uint64_t i = 0; i < kBytes; ++i) memory_[i] = byte_at(i);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      while (true) ::pause();
    }
    // From here on the two see different memory at the same address.
    std::memset(memory_, 0, kBytes);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    end();
    ::munmap(memory_, kBytes);
  }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  static std::byte byte_at(std::uint64_t i) { return static_cast<std::byte>(i * 7 + (i >> 9)); }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(memory_); }
  [[nodiscard]] std::vector<std::byte> read(std::uint64_t offset, std::uint64_t bytes) const {
    std::vector<std::byte> copy(bytes);
    EXPECT_EQ(fabric::read_from_process(pid_, address() + offset, copy), MoveStatus::ok);
    return copy;
  }

 private:
  std::byte* memory_;
  pid_t pid_;
};

class HostFabricTest : public ::testing::Test {
 protected:
  HostFabricTest() {
    add(kLeft, left_child_.pid(), kLeftBase);
    add(kRight, right_child_.pid(), kRightBase);
  }

  void add(WorldRank rank, pid_t pid, std::uint64_t base) {
    fabric_.add_rank(rank, make_rank(rank, pid));
    ASSERT_TRUE(fabric_.rank(rank)->add_region(kRegion, base, map_fresh(kBytes)));
    std::byte* memory = fabric_.rank(rank)->mapped(kRegion, base, kBytes);
    for (std::uint64_t i = 0; i < kBytes; ++i) memory[i] = static_cast<std::byte>(i * 3 + rank.value());
  }

  std::byte* left() { return fabric_.rank(kLeft)->mapped(kRegion, kLeftBase, kBytes); }
  std::byte* right() { return fabric_.rank(kRight)->mapped(kRegion, kRightBase, kBytes); }

  static Block block(WorldRank owner, RegionId region, std::uint64_t address, std::uint64_t bytes) {
    return Block{MemoryRef{owner, region, address}, bytes};
  }

  MoveStatus move(const Block& from, const Block& to, std::optional<Reach> reach = std::nullopt) {
    Ended ended;
    fabric_.move(from, to, nullptr, ended);
    EXPECT_FALSE(ended.ended()) << "ended inside the call that started it";
    for (int i = 0; i < 1000 && !ended.ended(); ++i) (void)fabric_.progress();
    EXPECT_TRUE(ended.ended());
    EXPECT_EQ(fabric_.moves_in_flight(), 0U);
    if (ended.ended() && reach) {
      EXPECT_EQ(ended.reach(), *reach);
    }
    return ended.ended() ? ended.status() : MoveStatus::memory_fault;
  }

  Child left_child_;
  Child right_child_;
  HostFabric fabric_;
};

TEST_F(HostFabricTest, MappedToMapped) {
  ASSERT_EQ(move(block(kLeft, kRegion, kLeftBase + 5, kBytes - 9), block(kRight, kRegion, kRightBase + 3, kBytes - 9),
                 Reach::mapped),
            MoveStatus::ok);
  EXPECT_EQ(std::memcmp(right() + 3, left() + 5, kBytes - 9), 0);
  EXPECT_EQ(right()[2], static_cast<std::byte>(2 * 3 + 1)) << "before the block";
  EXPECT_EQ(right()[kBytes - 6], static_cast<std::byte>(((kBytes - 6) * 3 + 1) & 0xFF)) << "behind the block";
}

TEST_F(HostFabricTest, WhatDoesNotFitInTheCacheGoesPastIt) {
  fabric_.set_cache_bytes(kBytes);
  const Block half = block(kLeft, kRegion, kLeftBase, kBytes / 2);
  Ended first;
  Ended second;
  EXPECT_EQ(fabric_.kernel(), CopyKernel::cached);
  fabric_.move(block(kLeft, kRegion, kLeftBase, 1000), block(kRight, kRegion, kRightBase, 1000), nullptr, first);
  EXPECT_EQ(fabric_.kernel(), CopyKernel::cached);
  fabric_.move(half, block(kRight, kRegion, kRightBase + 1, kBytes / 2), nullptr, second);
  EXPECT_EQ(fabric_.kernel(), CopyKernel::streaming);
  while (!second.ended()) ASSERT_TRUE(fabric_.progress());
  EXPECT_EQ(std::memcmp(right() + 1, left(), kBytes / 2), 0);
  EXPECT_EQ(fabric_.kernel(), CopyKernel::cached);
  Ended cancelled;
  fabric_.move(half, block(kRight, kRegion, kRightBase, kBytes / 2), nullptr, cancelled);
  fabric_.cancel(cancelled);
  EXPECT_EQ(fabric_.kernel(), CopyKernel::cached);
}

TEST(CopyKernels, CopyTheirBytesAndNoOthers) {
  constexpr std::size_t kMost = 400;
  constexpr std::byte kUntouched{0xEE};
  std::vector<std::byte> from(2 * kMost);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = Child::byte_at(i);
  for (std::size_t bytes = 0; bytes <= kMost; bytes += bytes < 70 ? 1 : 33) {
    for (std::size_t shift = 0; shift < 64; ++shift) {
      alignas(64) std::array<std::byte, kMost + 128> to{};
      to.fill(kUntouched);
      copy_bytes(CopyKernel::streaming, to.data() + shift, from.data() + shift / 3, bytes);
      ASSERT_EQ(std::memcmp(to.data() + shift, from.data() + shift / 3, bytes), 0) << bytes << " bytes at " << shift;
      ASSERT_TRUE(shift == 0 || to[shift - 1] == kUntouched) << bytes << " bytes at " << shift;
      ASSERT_EQ(to[shift + bytes], kUntouched) << bytes << " bytes at " << shift;
    }
  }
}

TEST_F(HostFabricTest, PrivateToMapped) {
  ASSERT_EQ(move(block(kLeft, kPrivateRegion, left_child_.address() + 11, kBytes - 11),
                 block(kRight, kRegion, kRightBase, kBytes - 11), Reach::cma),
            MoveStatus::ok);
  for (std::uint64_t i = 0; i < kBytes - 11; ++i) ASSERT_EQ(right()[i], Child::byte_at(i + 11)) << i;
}

TEST_F(HostFabricTest, MappedToPrivate) {
  ASSERT_EQ(move(block(kLeft, kRegion, kLeftBase, kBytes - 5),
                 block(kRight, kPrivateRegion, right_child_.address() + 5, kBytes - 5), Reach::cma),
            MoveStatus::ok);
  const auto copy = right_child_.read(5, kBytes - 5);
  EXPECT_EQ(std::memcmp(copy.data(), left(), copy.size()), 0);
}

TEST_F(HostFabricTest, PrivateToPrivateIsRelayed) {
  ASSERT_EQ(move(block(kLeft, kPrivateRegion, left_child_.address() + 3, kBytes - 3),
                 block(kRight, kPrivateRegion, right_child_.address(), kBytes - 3), Reach::relay),
            MoveStatus::ok);
  const auto copy = right_child_.read(0, kBytes - 3);
  for (std::uint64_t i = 0; i < copy.size(); ++i) ASSERT_EQ(copy[i], Child::byte_at(i + 3)) << i;
}

TEST_F(HostFabricTest, OverlappingRangesOfOneRank) {
  const std::vector<std::byte> before(left(), left() + 1000);
  ASSERT_EQ(move(block(kLeft, kRegion, kLeftBase, 1000), block(kLeft, kRegion, kLeftBase + 10, 1000)), MoveStatus::ok);
  EXPECT_EQ(std::memcmp(left() + 10, before.data(), 1000), 0);
}

TEST_F(HostFabricTest, HostileRangesFaultAndNothingIsWritten) {
  const std::vector<std::byte> before(right(), right() + kBytes);
  const std::uint64_t max = ~std::uint64_t{0};
  const Block good_to = block(kRight, kRegion, kRightBase, 4096);
  for (const Block& from : {
           block(kLeft, kRegion, kLeftBase - 1, 4096), block(kLeft, kRegion, kLeftBase + kBytes - 4095, 4096),
           block(kLeft, kRegion, max - 100, 4096), block(kLeft, kRegion, kRightBase, 4096),  // another rank's region
           block(kLeft, RegionId{77}, kLeftBase, 4096),                                      // no such region
           block(kLeft, kArenaRegion, kSegmentBase, 4096),             // the segment outside the arena
           block(kLeft, kPrivateRegion, 0, 4096),                      // nothing there
           block(kLeft, kPrivateRegion, max - 100, 4096),              // wraps
           block(kLeft, kPrivateRegion, 0xFFFF'8000'0000'0000, 4096),  // the kernel's half
       }) {
    EXPECT_EQ(move(from, good_to), MoveStatus::memory_fault) << std::hex << from.memory.address;
  }
  EXPECT_EQ(std::memcmp(before.data(), right(), kBytes), 0);
  const Block good_from = block(kLeft, kRegion, kLeftBase, 4096);
  EXPECT_EQ(move(good_from, block(kRight, kRegion, kRightBase + kBytes - 1, 4096)), MoveStatus::memory_fault);
  EXPECT_EQ(move(good_from, block(kRight, kPrivateRegion, 4096, 4096)), MoveStatus::memory_fault);
  EXPECT_EQ(move(good_from, block(WorldRank{3}, kRegion, kRightBase, 4096)), MoveStatus::owner_lost);
  EXPECT_EQ(move(good_from, block(WorldRank{0xFFFFFFFF}, kRegion, kRightBase, 4096)), MoveStatus::owner_lost);
}

TEST_F(HostFabricTest, PrivateRangeThatEndsInAHoleFaults) {
  // The child's mapping and nothing behind it: the end of the stack is far, so a huge range must fail.
  EXPECT_EQ(move(block(kLeft, kPrivateRegion, left_child_.address(), std::uint64_t{1} << 46),
                 block(kRight, kPrivateRegion, right_child_.address(), std::uint64_t{1} << 46)),
            MoveStatus::memory_fault);
}

TEST_F(HostFabricTest, DeadOwnerIsLost) {
  left_child_.end();
  EXPECT_EQ(move(block(kLeft, kPrivateRegion, left_child_.address(), 4096), block(kRight, kRegion, kRightBase, 4096)),
            MoveStatus::owner_lost);
}

TEST_F(HostFabricTest, PrivateMemoryWithoutReachFaults) {
  fabric_.add_rank(WorldRank{2}, make_rank(WorldRank{2}, left_child_.pid(), false));
  EXPECT_EQ(
      move(block(WorldRank{2}, kPrivateRegion, left_child_.address(), 64), block(kRight, kRegion, kRightBase, 64)),
      MoveStatus::memory_fault);
}

TEST_F(HostFabricTest, LongMoveDoesNotHoldUpAShortOne) {
  Ended long_one;
  Ended short_one;
  fabric_.move(block(kLeft, kRegion, kLeftBase, kBytes), block(kRight, kRegion, kRightBase, kBytes), nullptr, long_one);
  fabric_.move(block(kRight, kRegion, kRightBase, 64), block(kLeft, kRegion, kLeftBase, 64), nullptr, short_one);
  for (int i = 0; i < 2; ++i) (void)fabric_.progress();
  EXPECT_TRUE(short_one.ended());
  EXPECT_FALSE(long_one.ended());
  fabric_.cancel(long_one);
  EXPECT_EQ(fabric_.moves_in_flight(), 0U);
}

TEST_F(HostFabricTest, ManyShortMovesEndInOneProgress) {
  std::array<Ended, 32> ends;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    fabric_.move(block(kLeft, kRegion, kLeftBase + i, 64), block(kRight, kRegion, kRightBase + 64 * i, 64), nullptr,
                 ends[i]);
  }
  EXPECT_TRUE(fabric_.progress());
  for (const Ended& end : ends) EXPECT_TRUE(end.ended());
  EXPECT_FALSE(fabric_.progress());
}

TEST_F(HostFabricTest, CancelledMoveWritesNothingMore) {
  Ended ended;
  fabric_.move(block(kLeft, kRegion, kLeftBase, kBytes), block(kRight, kRegion, kRightBase, kBytes), nullptr, ended);
  EXPECT_TRUE(fabric_.progress());
  fabric_.cancel(ended);
  const std::vector<std::byte> before(right(), right() + kBytes);
  EXPECT_FALSE(fabric_.progress());
  EXPECT_FALSE(ended.ended());
  EXPECT_EQ(std::memcmp(before.data(), right(), kBytes), 0);
}

TEST_F(HostFabricTest, RegionDroppedUnderAMoveFaults) {
  Ended ended;
  fabric_.move(block(kLeft, kRegion, kLeftBase, kBytes), block(kRight, kRegion, kRightBase, kBytes), nullptr, ended);
  EXPECT_TRUE(fabric_.progress());
  ASSERT_TRUE(fabric_.rank(kLeft)->drop_region(kRegion));
  EXPECT_TRUE(fabric_.progress());
  ASSERT_TRUE(ended.ended());
  EXPECT_EQ(ended.status(), MoveStatus::memory_fault);
}

TEST_F(HostFabricTest, CompletionReportsResultsAndWakesTheRank) {
  const SegmentView segment = fabric_.rank(kLeft)->segment();
  const SlotIndex slot{5};
  ASSERT_TRUE(fabric_.slots().open(kLeft, slot));
  EXPECT_FALSE(fabric_.slots().open(kLeft, slot)) << "open already";
  EXPECT_FALSE(fabric_.slots().open(kLeft, SlotIndex{kSlotCount}));
  EXPECT_FALSE(fabric_.slots().open(WorldRank{9}, slot));
  fabric::CompletionRecord record;
  record.status = CompletionStatus::truncated;
  record.bytes_by_reach = {1, 2, 3};
  record.late_announcements = 4;
  fabric_.complete(kLeft, slot, record);
  EXPECT_EQ(segment.slot(slot).state.load(), static_cast<std::uint32_t>(SlotState::done));
  EXPECT_EQ(segment.slot(slot).result.status, static_cast<std::uint32_t>(CompletionStatus::truncated));
  EXPECT_EQ(segment.slot(slot).result.bytes_by_reach, record.bytes_by_reach);
  EXPECT_EQ(segment.header().completions.load(), 1U);
  fabric_.complete(kLeft, slot, record);
  EXPECT_EQ(segment.header().completions.load(), 1U) << "not open any more";
  EXPECT_TRUE(fabric_.slots().open(kLeft, slot));
}

TEST_F(HostFabricTest, ARankIsToldOnceThatItsBlocksAreFilled) {
  const SegmentView segment = fabric_.rank(kLeft)->segment();
  const SlotIndex slot{5};
  const auto state = [&] { return static_cast<SlotState>(segment.slot(slot).state.load()); };
  ASSERT_TRUE(fabric_.slots().open(kLeft, slot));
  fabric::CompletionRecord record;
  record.bytes_by_reach = {1, 2, 3};
  fabric_.filled(kLeft, slot, record);
  EXPECT_FALSE(fabric_.arm()) << "there is something to tell";
  EXPECT_TRUE(fabric_.progress());
  EXPECT_EQ(state(), SlotState::filled);
  EXPECT_EQ(segment.slot(slot).result.bytes_by_reach, record.bytes_by_reach);
  EXPECT_EQ(segment.header().completions.load(), 1U);
  record.status = CompletionStatus::peer_lost;
  fabric_.complete(kLeft, slot, record);
  EXPECT_EQ(state(), SlotState::done);
  EXPECT_EQ(segment.slot(slot).result.status, static_cast<std::uint32_t>(CompletionStatus::ok)) << "it was told";
}

TEST_F(HostFabricTest, WhatIsCompleteNeedsNotBeFilled) {
  const SegmentView segment = fabric_.rank(kLeft)->segment();
  const SlotIndex slot{5};
  ASSERT_TRUE(fabric_.slots().open(kLeft, slot));
  fabric_.filled(kLeft, slot, {});
  fabric_.complete(kLeft, slot, {});
  EXPECT_EQ(segment.header().completions.load(), 1U);
  segment.slot(slot).state.store(static_cast<std::uint32_t>(SlotState::posted));
  ASSERT_TRUE(fabric_.slots().open(kLeft, slot)) << "of the next operation";
  fabric_.progress();
  EXPECT_EQ(segment.slot(slot).state.load(), static_cast<std::uint32_t>(SlotState::posted));
}

TEST_F(HostFabricTest, NobodyIsToldForARankThatHasLeft) {
  const SlotIndex slot{5};
  ASSERT_TRUE(fabric_.slots().open(kLeft, slot));
  fabric_.filled(kLeft, slot, {});
  fabric_.drop_rank(kLeft);
  EXPECT_TRUE(fabric_.arm());
  EXPECT_FALSE(fabric_.progress());
}

TEST_F(HostFabricTest, MarksStayInsideTheirArray) {
  const SegmentView segment = fabric_.rank(kLeft)->segment();
  const std::uint64_t arena = kSegmentBase + SegmentView::arena_offset();
  const SlotIndex slot{0};
  ASSERT_TRUE(fabric_.slots().open(kLeft, slot));
  fabric_.slots().set_marks(kLeft, slot, LocalRef{kArenaRegion.value(), 0, arena + kArenaBytes - 4}, 4);
  fabric_.mark_block(kLeft, slot, GroupRank{3}, BlockMark::delivered);
  EXPECT_EQ(segment.arena()[kArenaBytes - 1], std::byte{1});
  EXPECT_EQ(segment.arena()[kArenaBytes - 2], std::byte{0});
  fabric_.mark_block(kLeft, slot, GroupRank{1}, BlockMark::failed);
  EXPECT_EQ(segment.arena()[kArenaBytes - 3], std::byte{2});
  fabric_.mark_block(kLeft, slot, GroupRank{4}, BlockMark::delivered);
  fabric_.mark_block(kLeft, slot, GroupRank{0xFFFFFFFF}, BlockMark::delivered);
  fabric_.mark_block(kLeft, SlotIndex{1}, GroupRank{0}, BlockMark::delivered);
  fabric_.mark_block(kLeft, SlotIndex{kSlotCount}, GroupRank{0}, BlockMark::delivered);
  // A rank that moves its base away under the service.
  segment.header().rank_base_address.store(0);
  fabric_.mark_block(kLeft, slot, GroupRank{0}, BlockMark::delivered);
  EXPECT_EQ(segment.arena()[kArenaBytes - 4], std::byte{0});
}

class PeerMessages : public ::testing::Test {
 protected:
  static constexpr std::size_t kWaitingMessages = 8;
  static fabric::HostFabricOptions few_waiting_messages() {
    fabric::HostFabricOptions options;
    options.waiting_messages = kWaitingMessages;
    return options;
  }
  PeerMessages() : fabric_(few_waiting_messages()) {
    doorbell_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    const auto make = [](std::optional<Mapping>& there) {
      auto fd = create_sealed_memory("outrigger-test", byte_ring_bytes(), Backing::on_touch);
      there.emplace(std::move(Mapping::map(fd.value().get(), byte_ring_bytes())).value());
      initialize_byte_ring(there->base());
      return std::move(Mapping::map(fd.value().get(), byte_ring_bytes())).value();
    };
    for (const std::uint32_t number : {1U, 2U}) {
      Peer& peer = number == 1 ? peer_ : other_;
      Mapping outbound = make(peer.inbound);
      Mapping inbound = make(peer.outbound);
      const Status added =
          rings().add(SpId{number}, std::move(outbound), std::move(inbound), UniqueFd(::dup(doorbell_.get())));
      EXPECT_TRUE(added) << added.error();
      peer.reader = std::make_unique<ByteRingReader>(peer.inbound->base());
      peer.writer = std::make_unique<ByteRingWriter>(peer.outbound->base());
    }
    reader_ = peer_.reader.get();
  }
  fabric::PeerRings& rings() { return fabric_.rings(); }
  bool rung() {
    std::uint64_t count = 0;
    return ::read(doorbell_.get(), &count, sizeof(count)) == sizeof(count);
  }
  struct Peer {
    std::optional<Mapping> inbound;
    std::optional<Mapping> outbound;
    std::unique_ptr<ByteRingReader> reader;
    std::unique_ptr<ByteRingWriter> writer;
  };
  UniqueFd doorbell_;
  HostFabric fabric_;
  Peer peer_;
  Peer other_;
  ByteRingReader* reader_ = nullptr;
};

TEST_F(PeerMessages, ABacklogIsSeenUntilThePeerReads) {
  const std::vector<std::byte> message(kByteRingMaxMessage / 2);
  std::size_t sent = 0;
  for (; !rings().backlogged(); ++sent) {
    ASSERT_LT(sent, 100U);
    fabric_.rings().send(SpId{1}, message);
  }
  EXPECT_GE(sent, kWaitingMessages);
  std::vector<std::byte> out;
  ASSERT_EQ(reader_->read(out), ByteRingReader::Event::message);
  EXPECT_TRUE(rings().progress());
  EXPECT_FALSE(rings().backlogged());
  EXPECT_TRUE(rings().must_poll());
}

TEST_F(PeerMessages, FullRingKeepsOrder) {
  std::uint32_t sent = 0;
  while (sent < 200) {
    std::array<std::byte, 4000> message{};
    std::memcpy(message.data(), &sent, sizeof(sent));
    fabric_.rings().send(SpId{1}, message);
    ++sent;
  }
  EXPECT_TRUE(rings().must_poll());
  std::vector<std::byte> out;
  for (std::uint32_t number = 0; number < sent; ++number) {
    if (reader_->empty()) {
      EXPECT_TRUE(rings().progress());
    }
    ASSERT_EQ(reader_->read(out), ByteRingReader::Event::message);
    std::uint32_t seen = 0;
    std::memcpy(&seen, out.data(), sizeof(seen));
    ASSERT_EQ(seen, number);
  }
  EXPECT_FALSE(rings().must_poll());
}

TEST_F(PeerMessages, DoorbellOnlyWhenTheReaderSleeps) {
  const std::array<std::byte, 8> message{};
  fabric_.rings().send(SpId{1}, message);
  EXPECT_FALSE(rung());
  reader_->set_sleeping(true);
  fabric_.rings().send(SpId{1}, message);
  EXPECT_TRUE(rung());
  reader_->set_sleeping(false);
  fabric_.rings().send(SpId{1}, message);
  EXPECT_FALSE(rung());
}

TEST_F(PeerMessages, PeersAreReadInTurnByTheirNumbersInTheJob) {
  rings().count_from(SpId{10});
  const std::array<std::byte, 8> message{};
  constexpr int kMany = 100;
  for (int i = 0; i < kMany; ++i) ASSERT_TRUE(peer_.writer->write(message));
  ASSERT_TRUE(other_.writer->write(message));
  std::vector<std::uint32_t> turn;
  SpId from;
  std::vector<std::byte> out;
  while (rings().receive(from, out)) turn.push_back(from.value());
  EXPECT_EQ(turn.back(), 12U) << "one peer's messages do not keep out another's";
  EXPECT_LT(turn.size(), std::size_t{kMany});
  std::size_t received = turn.size();
  while (rings().receive(from, out)) ++received;
  EXPECT_EQ(received, std::size_t{kMany + 1});
  EXPECT_EQ(rings().failure(), nullptr);
}

TEST_F(PeerMessages, PeersRingFromArmingOnUntilTheWakeUp) {
  const std::array<std::byte, 8> message{};
  EXPECT_TRUE(rings().arm());
  ASSERT_TRUE(peer_.writer->write(message));
  EXPECT_TRUE(peer_.writer->reader_sleeps());
  EXPECT_FALSE(rings().arm()) << "a message is here";
  rings().wake_up();
  EXPECT_FALSE(peer_.writer->reader_sleeps());
}

TEST_F(PeerMessages, NonsenseInARingIsAFailure) {
  ByteRingHeader& header = *reinterpret_cast<ByteRingHeader*>(peer_.outbound->base());
  header.tail.store(5);
  SpId from;
  std::vector<std::byte> out;
  EXPECT_FALSE(rings().receive(from, out));
  ASSERT_NE(rings().failure(), nullptr);
  EXPECT_EQ(rings().failure()->reason, "service process 1 sent a malformed message");
  EXPECT_EQ(rings().failure()->of, fabric::PortFailure::Of::process);
}

}  // namespace
}  // namespace outrigger::host_fabric_test
