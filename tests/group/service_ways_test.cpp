// Members of a node agree on who does each collective.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "group/service/group_service.hpp"

namespace outrigger::group {
namespace {

// A member of a node with two. There is another node, so the end of the service process does not matter.
class Member {
 public:
  Member(std::uint32_t rank, const UniqueFd& group, const UniqueFd& service, pid_t process)
      : layout_(rank, {0, 0, 2}),
        watch_(layout_, GroupArea::attach(group.get(), 2).value(),
               MemberProcesses::open({::getpid(), ::getpid()}).value(), {}),
        service_(ServiceArea::attach(service.get(), 2).value(), MemberProcesses::open({process}).value(), layout_,
                 watch_) {}

  // Begins so many collectives. By call: is the service process to do it?
  std::vector<bool> begin(int calls, bool prefers_service) {
    std::vector<bool> answers;
    for (int call = 0; call < calls; ++call) answers.push_back(service_.begin(prefers_service));
    return answers;
  }

 private:
  Layout layout_;
  MemberWatch watch_;
  GroupService service_;
};

// A service process that has ended.
class EndedProcess {
 public:
  EndedProcess() : id_(::fork()) {
    if (id_ == 0) ::_exit(0);
  }
  EndedProcess(const EndedProcess&) = delete;
  EndedProcess& operator=(const EndedProcess&) = delete;
  ~EndedProcess() { (void)::waitpid(id_, nullptr, 0); }
  [[nodiscard]] pid_t id() const { return id_; }

 private:
  pid_t id_;
};

class ServiceWaysTest : public testing::Test {
 protected:
  EndedProcess process_;
  UniqueFd group_ = GroupArea::create(2).value();
  UniqueFd service_ = ServiceArea::create(2).value();
  Member early_{0, group_, service_, process_.id()};
  Member late_{1, group_, service_, process_.id()};
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
