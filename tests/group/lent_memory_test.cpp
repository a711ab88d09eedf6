// Memory that other ranks read and write, when a rank gives up.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <span>
#include <thread>
#include <vector>

#include "rank_processes.hpp"

namespace outrigger {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 20;

template <class T>
T* new_memory(std::size_t bytes, int flags) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<T*>(memory);
}
std::span<std::byte> new_blocks() {
  return {new_memory<std::byte>(2 * kBlock, MAP_PRIVATE), 2 * kBlock};
}

// How far the ranks are.
struct Progress {
  std::atomic<bool> holds;    // rank 1 is held up after it has told where its memory is
  std::atomic<bool> gave_up;  // rank 0, whose memory has other contents now
  std::atomic<bool> ended;    // rank 1
};
void await(const std::atomic<bool>& reached) {
  while (!reached) std::this_thread::yield();
}

// Each rank copies its own block before it reads that of the other. Its first access stops there.
Progress* progress = nullptr;
std::uint32_t me = 0;
std::byte* own_block = nullptr;
void stop_in_call(int /*signal*/) {
  if (me == 1) progress->holds = true;
  await(me == 1 ? progress->gave_up : progress->holds);
  (void)::mprotect(own_block, kBlock, PROT_READ | PROT_WRITE);
}

using Call = int (*)(outrigger_group*, std::span<std::byte>, std::span<std::byte>);
int all_gather(outrigger_group* group, std::span<std::byte> from, std::span<std::byte> into) {
  const outrigger_group_blocks blocks{into.data(), kBlock, nullptr, nullptr};
  return outrigger_group_all_gather(group, from.data(), kBlock, &blocks);
}
int all_to_all(outrigger_group* group, std::span<std::byte> from, std::span<std::byte> into) {
  const outrigger_group_blocks given{from.data(), kBlock, nullptr, nullptr};
  const outrigger_group_blocks taken{into.data(), kBlock, nullptr, nullptr};
  return outrigger_group_all_to_all(group, &given, &taken);
}

int call_and_give_up(outrigger_group* group, std::uint32_t rank, Call call) {
  const std::span from = new_blocks();
  const std::span into = new_blocks();
  me = rank;
  own_block = into.data() + rank * kBlock;
  (void)::mprotect(own_block, kBlock, PROT_NONE);
  struct sigaction action {};
  action.sa_handler = stop_in_call;
  (void)::sigaction(SIGSEGV, &action, nullptr);
  if (rank == 0) outrigger_group_set_timeout(group, 1);
  const int result = call(group, from, into);
  if (rank == 1) {
    progress->ended = true;
    return result;
  }
  std::ranges::fill(from, std::byte{1});
  progress->gave_up = true;
  await(progress->ended);
  return result;
}

class LentMemoryTest : public testing::Test {
 protected:
  void SetUp() override { progress = new (new_memory<Progress>(sizeof(Progress), MAP_SHARED)) Progress{}; }
  void TearDown() override { ::munmap(progress, sizeof(Progress)); }
};

TEST_F(LentMemoryTest, NoCallSucceedsWithMemoryOfARankThatGaveUp) {
  for (const Call call : {all_gather, all_to_all}) {
    SetUp();
    const std::vector<int> results = run_processes(
        2, [&](outrigger_group* group, std::uint32_t rank) { return call_and_give_up(group, rank, call); });
    EXPECT_EQ(results, (std::vector<int>{OUTRIGGER_GROUP_TIMEOUT, OUTRIGGER_GROUP_TIMEOUT}));
    TearDown();
  }
  SetUp();
}

// Writes into `memory`, which is new, are held up until `until`.
bool hold_up_writes(std::span<std::byte> memory, const std::atomic<bool>& until) {
  const int faults = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC));
  uffdio_api api{.api = UFFD_API, .features = 0, .ioctls = 0};
  if (faults < 0 || ::ioctl(faults, UFFDIO_API, &api) != 0) return false;
  uffdio_register range{};
  range.range = {reinterpret_cast<std::uintptr_t>(memory.data()), memory.size()};
  range.mode = UFFDIO_REGISTER_MODE_MISSING;
  if (::ioctl(faults, UFFDIO_REGISTER, &range) != 0) return false;
  std::thread([=, &until] {
    uffd_msg fault{};
    while (::read(faults, &fault, sizeof fault) == sizeof fault) {
      progress->holds = true;
      await(until);
      uffdio_zeropage page{};
      page.range = {fault.arg.pagefault.address & ~std::uint64_t{4095}, 4096};
      (void)::ioctl(faults, UFFDIO_ZEROPAGE, &page);
    }
  }).detach();
  return true;
}

// 0: rank 0's call has not returned before the write into its memory had ended.
int reduce_and_give_up(outrigger_group* group, std::uint32_t rank) {
  const std::span from = new_blocks();
  const std::span into = new_blocks();
  std::atomic<bool> may_write = false;
  std::atomic<bool> has_returned = false;
  std::ranges::fill(from, std::byte{1});
  std::thread late;
  if (rank == 0) {
    if (!hold_up_writes(into.subspan(kBlock), may_write)) return 77;
    outrigger_group_set_timeout(group, 1);
    late = std::thread([&] {
      await(progress->holds);
      // Many times what a call takes to notice that its time is over.
      for (int looks = 0; looks < 20 && !has_returned; ++looks)
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      may_write = true;
    });
  }
  const int result = outrigger_group_all_reduce(group, from.data(), into.data(), 2 * kBlock / 4, OUTRIGGER_GROUP_INT32,
                                                OUTRIGGER_GROUP_SUM);
  if (rank == 1) return result == OUTRIGGER_GROUP_OK || result == OUTRIGGER_GROUP_TIMEOUT ? 0 : 1;
  const bool wrote_before = may_write;
  has_returned = true;
  late.join();
  return wrote_before ? 0 : 2;
}

TEST_F(LentMemoryTest, NothingIsWrittenAfterACall) {
  const std::vector<int> results =
      run_processes(2, [](outrigger_group* group, std::uint32_t rank) { return reduce_and_give_up(group, rank); });
  if (results.front() == 77) GTEST_SKIP() << "writes cannot be held up: userfaultfd is not allowed";
  EXPECT_EQ(results, (std::vector<int>{0, 0}));
}

}  // namespace
}  // namespace outrigger
