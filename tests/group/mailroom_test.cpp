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

// Messages of zeros with tag 0, without end.
class EndlessStream final : public Stream {
 public:
  explicit EndlessStream(std::uint64_t bytes) : bytes_(bytes) {}
  [[nodiscard]] std::size_t write(std::span<const std::byte> /*head*/, std::span<const std::byte> /*body*/) override {
    return 0;
  }
  [[nodiscard]] std::size_t read(std::span<std::byte> head, std::span<std::byte> body) override {
    if (head.empty()) {
      bodies_ += body.size();
      return body.size();
    }
    const std::array<std::uint64_t, 2> message{0, bytes_};
    std::memcpy(head.data(), message.data(), head.size());
    return head.size();
  }
  [[nodiscard]] std::uint64_t bodies() const { return bodies_; }

 private:
  std::uint64_t bytes_;
  std::uint64_t bodies_ = 0;
};

// Messages of zeros with tag 0, and then a short one with tag 1. All have been sent, and their sender has ended.
class EndedStream final : public Stream {
 public:
  EndedStream(std::uint64_t bytes, int messages) : bytes_(bytes), left_(messages) {}
  [[nodiscard]] std::size_t write(std::span<const std::byte> /*head*/, std::span<const std::byte> /*body*/) override {
    return 0;
  }
  [[nodiscard]] std::size_t read(std::span<std::byte> head, std::span<std::byte> body) override {
    if (head.empty()) return body.size();
    if (left_ < 0) return 0;
    const bool is_last = left_-- == 0;
    const std::array<std::uint64_t, 2> message{is_last ? 1U : 0U, is_last ? 1U : bytes_};
    std::memcpy(head.data(), message.data(), head.size());
    return head.size();
  }
  [[nodiscard]] bool is_closed() const override { return true; }
  [[nodiscard]] bool is_broken() const override { return true; }

 private:
  std::uint64_t bytes_;
  int left_;
};

// Member 0 has the stream from member 1.
struct Room {
  explicit Room(std::unique_ptr<Stream> stream)
      : area(GroupArea::attach(GroupArea::create(1).value().get(), 1).value()),
        watch(layout, area, MemberProcesses::open({::getpid()}).value(), {}),
        mailroom({.spins = 50, .yields = 20}, layout, area, watch, streams(std::move(stream))) {}

  static std::vector<std::unique_ptr<Stream>> streams(std::unique_ptr<Stream> stream) {
    std::vector<std::unique_ptr<Stream>> made;
    made.push_back(std::make_unique<NoStream>());
    made.push_back(std::move(stream));
    return made;
  }

  Layout layout{0, {0, 1}};
  GroupArea area;
  MemberWatch watch;
  Mailroom mailroom;
};

// Far more looks than a wait has before it sleeps.
TEST(MailroomTest, AWaiterDoesNotSleepWhileBytesMove) {
  constexpr std::uint64_t kBytes = 1000;
  const std::array<std::uint64_t, 2> head{3, kBytes};  // tag, bytes
  std::vector<std::byte> stream(sizeof head + kBytes, std::byte{42});
  std::memcpy(stream.data(), head.data(), sizeof head);

  auto slow = std::make_unique<SlowStream>(std::move(stream));
  const SlowStream& counted = *slow;
  Room room(std::move(slow));

  std::vector<std::byte> got(kBytes);
  const auto letter = room.mailroom.receive(got, 1, 3, false);
  EXPECT_EQ(room.mailroom.wait(letter, std::chrono::minutes(1)), Mailroom::Waited::done);
  EXPECT_EQ(got, std::vector<std::byte>(kBytes, std::byte{42}));
  EXPECT_EQ(counted.sleeps(), 0);
}

// A receive without a waiting caller does not raise the limit.
TEST(MailroomTest, AMemberThatSendsMuchWaits) {
  constexpr std::uint64_t kBytes = kMostKeptBytes / 4;
  auto endless = std::make_unique<EndlessStream>(kBytes);
  const EndlessStream& counted = *endless;
  Room room(std::move(endless));
  std::vector<std::byte> got(kBytes);
  const auto other = room.mailroom.receive({}, 1, 1, false);
  EXPECT_EQ(counted.bodies(), kMostKeptBytes);
  const auto first = room.mailroom.receive(got, 1, 0, false);
  EXPECT_EQ(room.mailroom.test(first), Mailroom::Waited::done);
  EXPECT_EQ(counted.bodies(), kMostKeptBytes + kBytes);
  room.mailroom.cancel(other);
}

TEST(MailroomTest, AnEndedMembersMessageThatWaitsForRoomIsNotLost) {
  Room room(std::make_unique<EndedStream>(kMostKeptBytes / 4, 6));
  std::array<std::byte, 1> got{};
  const auto last = room.mailroom.receive(got, 1, 1, false);
  const auto own = room.mailroom.receive({}, 0, 9, false);
  EXPECT_EQ(room.mailroom.test(own), Mailroom::Waited::late);  // looks after member 1
  EXPECT_EQ(room.mailroom.wait(last, std::chrono::minutes(1)), Mailroom::Waited::done);
  room.mailroom.cancel(own);
}

}  // namespace
}  // namespace outrigger::group
