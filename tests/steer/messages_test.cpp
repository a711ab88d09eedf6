// Messages of coordinators: written, read, bent, and claims that are not the sender's to make.
#include "steer/coordinator/messages.hpp"

#include <gtest/gtest.h>

#include "some_plan.hpp"
#include "steer/coordinator/coordinator.hpp"

namespace outrigger::steer {
namespace {

constexpr GroupId kSomeGroup{1, 1};

std::vector<std::byte> encoded(const Body& body) {
  std::vector<std::byte> bytes;
  encode(Message{{Epoch{1}, Epoch{1}, OperationId{kSomeGroup, 0}}, body}, bytes);
  return bytes;
}

std::vector<Body> all_kinds() {
  const PlanChange change{1ULL << 40U, DispatchPlan{Suspended{1, 2}, {}, {}}, some_plan()};
  return {Vote{Suspended{5, 0xFFFFFFFF}}, Hold{}, Held{true, 3, 1ULL << 40U}, Resume{true, change},
          Measured{7, some_times()}};
}

TEST(CoordinatorMessages, WhatIsWrittenIsReadAndNoOtherLengthIs) {
  for (const Body& body : all_kinds()) {
    std::vector<std::byte> bytes = encoded(body);
    EXPECT_TRUE(peer::is_for_coordinator(bytes));
    EXPECT_FALSE(peer::decode(bytes)) << "the engine knows no such kind";
    const std::optional<Message> read = decode(bytes);
    ASSERT_TRUE(read);
    EXPECT_EQ(encoded(read->body), bytes);
    for (std::size_t length = 0; length < bytes.size(); ++length) EXPECT_FALSE(decode(std::span(bytes).first(length)));
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(decode(bytes));
  }
}

TEST(CoordinatorMessages, ABentByteIsRefusedOrReadConsistently) {
  for (const Body& body : all_kinds()) {
    const std::vector<std::byte> good = encoded(body);
    for (std::size_t at = 0; at < good.size(); ++at) {
      for (const unsigned value : {0U, 1U, 0x7FU, 0x80U, 0xFFU}) {
        std::vector<std::byte> bent = good;
        bent[at] = static_cast<std::byte>(value);
        const std::optional<Message> read = decode(bent);
        if (!read) continue;
        std::vector<std::byte> again;
        encode(*read, again);
        EXPECT_EQ(again, bent);
      }
    }
  }
}

class SilentHost final : public CoordinatorHost {
 public:
  void send(SpId /*to*/, std::span<const std::byte> /*message*/) override {}
  std::optional<std::uint64_t> hold_calls(WorldRank /*rank*/, const GroupId& /*group*/) override { return 0; }
  void resume_calls(WorldRank /*rank*/, const GroupId& /*group*/, const PlanChange* /*change*/) override {}
};

TEST(CoordinatorMessages, TheCoordinatorChecksClaims) {
  SilentHost host;
  Coordinator coordinator(CoordinatorConfig{SpId{1}, Epoch{1}, {SpId{0}, SpId{1}, SpId{2}, SpId{3}}}, host);
  const std::vector<WorldRank> members{WorldRank{0}, WorldRank{1}, WorldRank{2}};
  coordinator.join(WorldRank{1}, kSomeGroup, std::make_shared<const std::vector<WorldRank>>(members));
  const auto refused = [&](const Body& body, std::uint32_t from) {
    return !coordinator.receive(SpId{from}, encoded(body));
  };
  for (const Body& body : all_kinds()) {
    const bool of_leader = std::holds_alternative<Hold>(body) || std::holds_alternative<Resume>(body);
    EXPECT_FALSE(refused(body, 0)) << "the leader's";
    EXPECT_TRUE(refused(body, 1)) << "from itself";
    EXPECT_EQ(refused(body, 2), of_leader);
    EXPECT_TRUE(refused(body, 3)) << "serves no member";
  }
}

}  // namespace
}  // namespace outrigger::steer
