#include "base/shared_memory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

namespace outrigger {
namespace {

TEST(SharedMemory, ALimitOnFileSizesIsAnErrorAndNotASignal) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 4096;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  for (const Backing backing : {Backing::on_touch, Backing::reserved}) {
    const auto memory = create_sealed_memory("outrigger-test", 8192, backing);
    const std::string error = memory ? "none" : memory.error();
    EXPECT_NE(error.find("ulimit -f"), std::string::npos) << error;
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
}

TEST(SharedMemory, OnlySealedMemfdsOfTheAnnouncedSizeAreAccepted) {
  const auto sealed = create_sealed_memory("outrigger-test", 8192, Backing::on_touch);
  ASSERT_TRUE(sealed) << sealed.error();
  EXPECT_TRUE(check_sealed_memory(sealed.value().get(), 8192));
  EXPECT_FALSE(check_sealed_memory(sealed.value().get(), 8193));
  EXPECT_NE(::ftruncate(sealed.value().get(), 4096), 0) << "a sealed memfd must not shrink";

  const UniqueFd unsealed(::memfd_create("outrigger-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), 8192), 0);
  EXPECT_FALSE(check_sealed_memory(unsealed.get(), 8192));

  const UniqueFd file(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(check_sealed_memory(file.get(), 1));
  const UniqueFd unwritable(::memfd_create("outrigger-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unwritable.get(), 8192), 0);
  ASSERT_EQ(::fcntl(unwritable.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_WRITE), 0);
  EXPECT_FALSE(check_sealed_memory(unwritable.get(), 8192));
}

TEST(SharedMemory, IsReservedOrComesOnTouch) {
  constexpr std::uint64_t kBytes = 1 << 20;
  for (const Backing backing : {Backing::on_touch, Backing::reserved}) {
    const auto memory = create_sealed_memory("outrigger-test", kBytes, backing);
    ASSERT_TRUE(memory) << memory.error();
    EXPECT_TRUE(check_sealed_memory(memory.value().get(), kBytes));
    struct stat status {};
    ASSERT_EQ(::fstat(memory.value().get(), &status), 0);
    const auto allocated = static_cast<std::uint64_t>(status.st_blocks) * 512;
    EXPECT_EQ(allocated, backing == Backing::reserved ? kBytes : 0);
  }
}

TEST(SharedMemory, MemoryThatIsNotThereIsAnErrorAndEndsNobody) {
  const auto memory = create_sealed_memory("outrigger-test", 1ULL << 50, Backing::reserved);
  ASSERT_FALSE(memory);
  EXPECT_NE(memory.error().find("not enough memory"), std::string::npos) << memory.error();
}

}  // namespace
}  // namespace outrigger
