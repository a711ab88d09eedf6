// Posts whose caller rings after others have had a turn: the service process is woken once for all, and never too late.
#include <gtest/gtest.h>

#include <array>

#include "fake_node.hpp"

namespace outrigger::client::test {
namespace {

constexpr std::uint32_t kMembers = 8;

class LateBell : public ::testing::Test {
 protected:
  LateBell() : client_(node_.attach()) {
    group_ = client_->define_group(GroupId{7, 9}, world(kMembers), GroupRank(3));
    (void)node_.doorbell_was_rung();
  }

  void service(ServiceSleep sleep) { node_.header().service_sleeping.store(static_cast<std::uint32_t>(sleep)); }
  [[nodiscard]] PendingOperationPtr post(bool rings_late = true) {
    OperationRequest request;
    request.group = group_;
    request.sequence = sequence_++;
    request.send = BufferLayout{send_.data(), 64, 64, {}};
    request.receive = BufferLayout{receive_.data(), 64, 64, {}};
    request.rings_late = rings_late;
    return client_->post(request);
  }
  // As a service process that another rank has woken, which sleeps again.
  void take_all() { node_.header().ring_head.store(node_.header().ring_tail.load()); }

  std::uint64_t sequence_ = 0;
  std::array<std::byte, kMembers * 64> send_{};
  std::array<std::byte, kMembers * 64> receive_{};
  FakeNode node_;
  std::unique_ptr<Client> client_;
  std::shared_ptr<const Group> group_;
};

TEST_F(LateBell, IsRungOnceForAllPosts) {
  service(ServiceSleep::unemployed);
  const auto first = post();
  const auto second = post();
  EXPECT_FALSE(node_.doorbell_was_rung());
  EXPECT_TRUE(client_->ring_late());
  EXPECT_TRUE(node_.doorbell_was_rung());
  EXPECT_FALSE(client_->ring_late());
  EXPECT_FALSE(node_.doorbell_was_rung());
}

TEST_F(LateBell, IsNotRungWhereAllIsTakenAlready) {
  service(ServiceSleep::unemployed);
  const auto operation = post();
  take_all();
  service(ServiceSleep::asleep);  // for the others of that operation
  EXPECT_FALSE(client_->ring_late());
  EXPECT_FALSE(node_.doorbell_was_rung());
}

TEST_F(LateBell, IsNotRungForOneWhoIsAwake) {
  service(ServiceSleep::unemployed);
  const auto operation = post();
  service(ServiceSleep::awake);
  EXPECT_FALSE(client_->ring_late());
  EXPECT_FALSE(node_.doorbell_was_rung());
}

// Somebody may wait for this rank, and the caller's core may be others' for long.
TEST_F(LateBell, IsRungAtOnceWhereSomethingIsOpen) {
  service(ServiceSleep::asleep);
  const auto operation = post();
  EXPECT_TRUE(node_.doorbell_was_rung());
  EXPECT_FALSE(client_->ring_late());
}

TEST_F(LateBell, IsRungAtOnceForWhoDoesNotRingLate) {
  service(ServiceSleep::unemployed);
  const auto operation = post(false);
  EXPECT_TRUE(node_.doorbell_was_rung());
  EXPECT_FALSE(client_->ring_late());
}

TEST_F(LateBell, ThatIsForgottenIsRungByALook) {
  service(ServiceSleep::unemployed);
  const auto operation = post();
  EXPECT_FALSE(node_.doorbell_was_rung());
  EXPECT_FALSE(client_->poll(*operation));
  EXPECT_TRUE(node_.doorbell_was_rung());
}

// 4096 slots in use: the post goes to a record of its own.
TEST_F(LateBell, IsRungForRecordsToo) {
  std::vector<PendingOperationPtr> operations;
  service(ServiceSleep::awake);
  for (std::uint32_t i = 0; i < kSlotCount; ++i) operations.push_back(post());
  take_all();
  service(ServiceSleep::unemployed);
  operations.push_back(post());
  ASSERT_NE(node_.header().overflow_tail.load(), 0U);
  EXPECT_FALSE(node_.doorbell_was_rung());
  EXPECT_TRUE(client_->ring_late());
  EXPECT_TRUE(node_.doorbell_was_rung());
}

}  // namespace
}  // namespace outrigger::client::test
