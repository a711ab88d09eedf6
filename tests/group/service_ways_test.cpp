// Members of a node agree on who does each collective.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "group/service/group_service.hpp"

namespace outrigger::group {
namespace {

// A member of a node with two. This process is the service process, which does nothing.
class Member {
 public:
  Member(std::uint32_t rank, const UniqueFd& group, const UniqueFd& service)
      : layout_(rank, {0, 0}),
        watch_(layout_, GroupArea::attach(group.get(), 2).value(), processes(2), {}),
        service_(ServiceArea::attach(service.get(), 2).value(), processes(1), layout_, watch_) {}

  // Begins so many collectives. By call: is the service process to do it?
  std::vector<bool> begin(int calls, bool prefers_service) {
    std::vector<bool> answers;
    for (int call = 0; call < calls; ++call) answers.push_back(service_.begin(prefers_service));
    return answers;
  }

 private:
  static MemberProcesses processes(std::size_t count) {
    return MemberProcesses::open(std::vector<pid_t>(count, ::getpid())).value();
  }

  Layout layout_;
  MemberWatch watch_;
  GroupService service_;
};

class ServiceWaysTest : public testing::Test {
 protected:
  UniqueFd group_ = GroupArea::create(2).value();
  UniqueFd service_ = ServiceArea::create(2).value();
  Member early_{0, group_, service_};
  Member late_{1, group_, service_};
};

TEST_F(ServiceWaysTest, TheFirstMemberDecides) {
  EXPECT_EQ(early_.begin(1, true), std::vector{true});
  EXPECT_EQ(late_.begin(1, false), std::vector{true});
  EXPECT_EQ(late_.begin(1, false), std::vector{false});
  EXPECT_EQ(early_.begin(1, true), std::vector{false});
}

TEST_F(ServiceWaysTest, ALateMemberDoesWhatAnotherOneHasPassed) {
  constexpr int kPassed = 100;  // more than there are words for
  EXPECT_EQ(early_.begin(kPassed, false), std::vector<bool>(kPassed, false));
  EXPECT_EQ(early_.begin(1, true), std::vector{true});
  EXPECT_EQ(late_.begin(kPassed, true), std::vector<bool>(kPassed, false));
  EXPECT_EQ(late_.begin(1, false), std::vector{true});
}

}  // namespace
}  // namespace outrigger::group
