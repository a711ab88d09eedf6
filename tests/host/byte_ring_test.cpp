#include "protocol/shared/byte_ring.hpp"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "ring_memory.hpp"

namespace outrigger::byte_ring_test {
namespace {

using testing::RingMemory;
using Event = ByteRingReader::Event;

std::vector<std::byte> message_of(std::uint64_t number, std::size_t bytes) {
  std::vector<std::byte> message(bytes);
  for (std::size_t i = 0; i < bytes; ++i) message[i] = static_cast<std::byte>(number * 13 + i);
  return message;
}

TEST(ByteRing, MessagesOfAllSizesComeOutInOrderAcrossWraparound) {
  const RingMemory memory;
  ByteRingWriter writer(memory.data());
  ByteRingReader reader(memory.data());
  std::mt19937_64 random(1);
  std::vector<std::byte> out;
  std::uint64_t total = 0;
  for (std::uint64_t number = 0; total < 20ULL * kByteRingCapacity; ++number) {
    const std::size_t bytes = number % 7 == 0 ? 0 : random() % 40'000;
    ASSERT_TRUE(writer.write(message_of(number, bytes)));
    ASSERT_EQ(reader.read(out), Event::message);
    ASSERT_EQ(out, message_of(number, bytes));
    ASSERT_EQ(reader.read(out), Event::empty);
    total += bytes;
  }
}

TEST(ByteRing, FullRingRefusesAndLosesNothing) {
  const RingMemory memory;
  ByteRingWriter writer(memory.data());
  ByteRingReader reader(memory.data());
  std::uint64_t written = 0;
  while (writer.write(message_of(written, 1000))) ++written;
  EXPECT_GE(written, kByteRingCapacity / 1100);
  std::vector<std::byte> out;
  ASSERT_EQ(reader.read(out), Event::message);
  EXPECT_EQ(out, message_of(0, 1000));
  EXPECT_TRUE(writer.write(message_of(written, 1000)));
  EXPECT_FALSE(writer.write(message_of(written + 1, 1000)));
  for (std::uint64_t number = 1; number <= written; ++number) {
    ASSERT_EQ(reader.read(out), Event::message);
    ASSERT_EQ(out, message_of(number, 1000));
  }
  EXPECT_EQ(reader.read(out), Event::empty);
}

TEST(ByteRing, LargestMessageFitsAndALargerOneDoesNot) {
  const RingMemory memory;
  ByteRingWriter writer(memory.data());
  EXPECT_FALSE(writer.write(message_of(0, kByteRingMaxMessage + 1)));
  EXPECT_TRUE(writer.write(message_of(0, kByteRingMaxMessage)));
  ByteRingReader reader(memory.data());
  std::vector<std::byte> out;
  ASSERT_EQ(reader.read(out), Event::message);
  EXPECT_EQ(out.size(), kByteRingMaxMessage);
}

TEST(ByteRing, HostileLengthBreaksTheRingAndNothingElse) {
  for (const std::uint32_t length : {0xFFFFFFFFU, kByteRingMaxMessage + 1, 5000U, 0x80000000U}) {
    const RingMemory memory;
    std::memcpy(memory.data() + kByteRingDataOffset, &length, sizeof(length));
    memory.header().tail.store(64);
    ByteRingReader reader(memory.data());
    std::vector<std::byte> out;
    EXPECT_EQ(reader.read(out), Event::broken) << length;
    EXPECT_EQ(reader.read(out), Event::broken) << "stays broken";
  }
}

TEST(ByteRing, HostileTailBreaksTheRing) {
  for (const std::uint64_t tail : {std::uint64_t{1}, std::uint64_t{kByteRingCapacity} + 8, ~std::uint64_t{0}}) {
    const RingMemory memory;
    memory.header().tail.store(tail);
    ByteRingReader reader(memory.data());
    std::vector<std::byte> out;
    EXPECT_EQ(reader.read(out), Event::broken) << tail;
  }
}

TEST(ByteRing, HostileHeadLooksFull) {
  const RingMemory memory;
  ByteRingWriter writer(memory.data());
  while (writer.write(message_of(0, 30'000))) {
  }
  for (const std::uint64_t head : {~std::uint64_t{0}, std::uint64_t{1} << 40, std::uint64_t{kByteRingCapacity} * 3}) {
    memory.header().head.store(head);
    EXPECT_FALSE(writer.write(message_of(1, 30'000))) << head;
  }
}

TEST(ByteRing, RandomGarbageNeverReadsOutside) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    const RingMemory memory;
    for (std::size_t i = 0; i < 512; i += 8) {
      const std::uint64_t word = random() & (round % 2 == 0 ? 0xFFFF : ~0ULL);
      std::memcpy(memory.data() + kByteRingDataOffset + i, &word, sizeof(word));
    }
    memory.header().tail.store(random() % 600);
    ByteRingReader reader(memory.data());
    std::vector<std::byte> out;
    for (int i = 0; i < 100 && reader.read(out) == Event::message; ++i) ASSERT_LE(out.size(), kByteRingMaxMessage);
  }
}

TEST(ByteRing, WriterAndReaderOnTwoThreads) {
  const RingMemory memory;
  constexpr std::uint64_t kMessages = 20'000;
  std::thread producer([&] {
    ByteRingWriter writer(memory.data());
    for (std::uint64_t number = 0; number < kMessages; ++number) {
      const auto message = message_of(number, number % 300);
      while (!writer.write(message)) std::this_thread::yield();
    }
  });
  ByteRingReader reader(memory.data());
  std::vector<std::byte> out;
  for (std::uint64_t number = 0; number < kMessages;) {
    const Event event = reader.read(out);
    ASSERT_NE(event, Event::broken);
    if (event == Event::empty) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(out, message_of(number, number % 300));
    ++number;
  }
  producer.join();
}

}  // namespace
}  // namespace outrigger::byte_ring_test
