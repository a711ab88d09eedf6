#include "intranode/slot_writer.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace outrigger::intranode {
namespace {

// At every alignment and length, and nothing beside it, however the writer stores.
TEST(SlotWriterTest, StreamedCopiesAreExact) {
  std::mt19937_64 random(1);
  std::vector<std::byte> from(20'000);
  for (std::byte& byte : from) byte = static_cast<std::byte>(random());
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::byte> slot(20'200);
    const std::size_t at = 64 + random() % 64;
    const std::span<const std::byte> given =
        std::span<const std::byte>(from).subspan(random() % 64, 4096 + random() % 9000);
    stream_into(slot.data() + at, given);
    ASSERT_TRUE(std::equal(given.begin(), given.end(), slot.begin() + static_cast<std::ptrdiff_t>(at)));
    ASSERT_EQ(slot[at - 1], std::byte{});
    ASSERT_EQ(slot[at + given.size()], std::byte{});
  }
}

}  // namespace
}  // namespace outrigger::intranode
