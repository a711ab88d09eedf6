// A mailroom with a stream of the test's.
#include "group/mailroom.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

namespace outrigger::group {
namespace {

// To another node: gives one byte at each look. A sleep would ask for the descriptor.
class SlowStream final : public Stream {
 public:
  explicit SlowStream(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  [[nodiscard]] std::size_t write(std::span<const std::byte> /*head*/, std::span<const std::byte> /*body*/) override {
    return 0;
  }
  [[nodiscard]] std::size_t read(std::span<std::byte> head, std::span<std::byte> body) override {
    const std::span<std::byte> into = head.empty() ? body : head;
    if (into.empty() || read_ == bytes_.size()) return 0;
    into.front() = bytes_[read_++];
    return 1;
  }
  [[nodiscard]] int descriptor() const override {
    ++sleeps_;
    return -1;
  }
  [[nodiscard]] int sleeps() const { return sleeps_; }

 private:
  std::vector<std::byte> bytes_;
  std::size_t read_ = 0;
  mutable int sleeps_ = 0;
};

class NoStream final : public Stream {
 public:
  [[nodiscard]] std::size_t write(std::span<const std::byte> /*head*/, std::span<const std::byte> /*body*/) override {
    return 0;
  }
  [[nodiscard]] std::size_t read(std::span<std::byte> /*head*/, std::span<std::byte> /*body*/) override { return 0; }
};

// Far more looks than a wait has before it sleeps.
TEST(MailroomTest, AWaiterDoesNotSleepWhileBytesMove) {
  constexpr std::uint64_t kBytes = 1000;
  const std::array<std::uint64_t, 2> head{3, kBytes};  // tag, bytes
  std::vector<std::byte> stream(sizeof head + kBytes, std::byte{42});
  std::memcpy(stream.data(), head.data(), sizeof head);

  const Layout layout(0, {0, 1});
  Result<UniqueFd> memory = GroupArea::create(1);
  ASSERT_TRUE(memory);
  Result<GroupArea> area = GroupArea::attach(memory.value().get(), 1);
  ASSERT_TRUE(area);
  MemberWatch watch(layout, area.value(), MemberProcesses({::getpid()}), {});
  auto slow = std::make_unique<SlowStream>(std::move(stream));
  const SlowStream& counted = *slow;
  std::vector<std::unique_ptr<Stream>> streams;
  streams.push_back(std::make_unique<NoStream>());
  streams.push_back(std::move(slow));
  Mailroom mailroom({.spins = 50, .yields = 20}, layout, area.value(), watch, std::move(streams));

  std::vector<std::byte> got(kBytes);
  const auto letter = mailroom.receive(got, 1, 3, false);
  EXPECT_EQ(mailroom.wait(letter, std::chrono::minutes(1)), Mailroom::Waited::done);
  EXPECT_EQ(got, std::vector<std::byte>(kBytes, std::byte{42}));
  EXPECT_EQ(counted.sleeps(), 0);
}

}  // namespace
}  // namespace outrigger::group
