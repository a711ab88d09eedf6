// A service process that sleeps tells ranks whether a bell can wait until others have posted.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <thread>

#include "node.hpp"

namespace outrigger::testing {
namespace {

using client::Client;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kRanks = 2;
constexpr std::uint64_t kBlockBytes = 64;
constexpr std::chrono::seconds kVeryLong{60};
constexpr std::chrono::milliseconds kUntilItSleeps{20};

class LateBells : public ::testing::Test {
 protected:
  LateBells() {
    auto attached = node_.attach_all();
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if (!attached[rank]) {
        ADD_FAILURE() << attached[rank].error();
        continue;
      }
      clients_[rank] = std::move(attached[rank]).value();
      groups_[rank] = clients_[rank]->define_group(GroupId{7, 9}, {WorldRank{0}, WorldRank{1}}, GroupRank{rank});
    }
  }

  [[nodiscard]] client::PendingOperationPtr post(std::uint32_t rank) {
    client::OperationRequest request;
    request.group = groups_[rank];
    request.sequence = sequence_;
    request.send = {sent_[rank].data(), kBlockBytes, static_cast<std::int64_t>(kBlockBytes), {}};
    request.receive = {received_[rank].data(), kBlockBytes, static_cast<std::int64_t>(kBlockBytes), {}};
    request.rings_late = true;
    return clients_[rank]->post(request);
  }
  [[nodiscard]] bool ends(std::uint32_t rank, client::PendingOperation& operation) {
    const auto deadline = Clock::now() + kVeryLong;
    while (!clients_[rank]->poll(operation)) {
      if (Clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return clients_[rank]->result(operation).status == CompletionStatus::ok;
  }

  std::uint64_t sequence_ = 0;
  std::array<std::array<std::byte, kRanks * kBlockBytes>, kRanks> sent_{};
  std::array<std::array<std::byte, kRanks * kBlockBytes>, kRanks> received_{};
  Node node_{NodeOptions()};  // of two ranks
  std::array<std::unique_ptr<Client>, kRanks> clients_;
  std::array<std::shared_ptr<const client::Group>, kRanks> groups_;
};

// It may have been awake by chance, for whatever reason, when somebody posted: then nobody has to ring.
TEST_F(LateBells, TheFirstPostWaitsForItsBellAndTheOthersDoNot) {
  const auto deadline = Clock::now() + kVeryLong;
  bool rung_late = false;
  for (; !rung_late && Clock::now() < deadline; ++sequence_) {
    std::this_thread::sleep_for(kUntilItSleeps);
    const auto first = post(0);
    ASSERT_NE(first, nullptr);
    std::this_thread::sleep_for(kUntilItSleeps);
    rung_late = clients_[0]->ring_late();
    std::this_thread::sleep_for(kUntilItSleeps);  // it has taken that, and sleeps until the other has posted
    const auto second = post(1);
    ASSERT_NE(second, nullptr);
    ASSERT_TRUE(ends(0, *first)) << "nobody but the second post has woken it";
    EXPECT_FALSE(clients_[1]->ring_late());
    ASSERT_TRUE(ends(1, *second));
  }
  EXPECT_TRUE(rung_late);
}

}  // namespace
}  // namespace outrigger::testing
