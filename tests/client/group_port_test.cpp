// A group as the port of its dispatcher: the plan's entry in the segment, and messages in slots.
#include <gtest/gtest.h>

#include "client/operations/client_group.hpp"
#include "fake_node.hpp"

namespace outrigger::client::test {
namespace {

struct GroupPort : ::testing::Test {
  // The next slot that the service process gets.
  [[nodiscard]] SlotRequestBody posted() {
    const auto slot = node.take_post();
    EXPECT_TRUE(slot);
    return slot ? node.body(*slot) : SlotRequestBody{};
  }

  FakeNode node;
  AttachedEndpoint client = node.attach();
  std::shared_ptr<const Group> group = client->define_group(GroupId{7, 9}, world(8), GroupRank(3));
};

TEST_F(GroupPort, MessagesHaveTheFieldsOfTheirKind) {
  ASSERT_NE(group->entry(), nullptr);
  group->send({.kind = SlotRequest::ask_trial, .algorithm = 2, .request = 0x12345678});
  const SlotRequestBody trial = posted();
  EXPECT_EQ(trial.request, static_cast<std::uint16_t>(SlotRequest::ask_trial));
  EXPECT_EQ(trial.plan, group->plan().value);
  EXPECT_EQ(trial.group_high, 7U);
  EXPECT_EQ(trial.group_low, 9U);
  EXPECT_EQ(trial.algorithm, 2);
  EXPECT_EQ(trial.root, 0x12345678U);
  EXPECT_EQ(trial.group_size, 0U);

  group->send({.kind = SlotRequest::measured, .trial = 5});
  EXPECT_EQ(posted().sequence, 5U);
  group->send({.kind = SlotRequest::larger_blocks, .collective = 3});
  EXPECT_EQ(posted().collective, 3);
}

TEST_F(GroupPort, JoiningNamesTheMembers) {
  group->send({.kind = SlotRequest::join_plan});
  const SlotRequestBody join = posted();
  EXPECT_EQ(join.request, static_cast<std::uint16_t>(SlotRequest::join_plan));
  EXPECT_EQ(join.group_size, 8U);
  EXPECT_EQ(join.group_rank, 3U);
  const auto* members = reinterpret_cast<const std::uint32_t*>(node.at(join.members, 8 * sizeof(std::uint32_t)));
  ASSERT_NE(members, nullptr);
  for (std::uint32_t i = 0; i < 8; ++i) EXPECT_EQ(members[i], i);
  EXPECT_TRUE(group->used()) << "it is forgotten by a message, too";
}

TEST_F(GroupPort, TheJobsEndIsSeen) {
  EXPECT_FALSE(group->job_ended());
  node.set_fatal("over");
  EXPECT_TRUE(group->job_ended());
}

TEST_F(GroupPort, NothingIsSentOnceTheClientIsGone) {
  EXPECT_FALSE(group->is_inert());
  client.reset();
  EXPECT_TRUE(group->is_inert());
  group->send({.kind = SlotRequest::join_plan});
  EXPECT_FALSE(node.take_post(std::chrono::milliseconds(0)));
}

}  // namespace
}  // namespace outrigger::client::test
