// Service processes as the other ends of socket pairs: their messages, how they are lost, and the state that a
// restarted one needs.
#include "service/keeper/supervise/service_processes.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "service/notices/fault_report.hpp"

namespace outrigger::service {
namespace {

class SocketStarter final : public ServiceStarter {
 public:
  [[nodiscard]] Result<StartedService> start(std::uint32_t sp) override {
    std::array<int, 2> fds{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()), 0);
    service[sp] = ControlSocket(UniqueFd(fds[1]));
    StartedService started;
    started.control.reset(fds[0]);
    started.pid = pid_of_all != 0 ? pid_of_all : static_cast<pid_t>(100 + sp);
    return started;
  }
  [[nodiscard]] bool is_stopped(std::uint32_t) override { return false; }
  [[nodiscard]] int state_event() const override { return -1; }
  void clear_state_event() override {}
  [[nodiscard]] std::string how_it_ended(std::uint32_t) override { return "has gone"; }
  void renumber(std::uint32_t from, std::uint32_t to) override { renumbered = {from, to}; }
  void stop_all() override {}

  pid_t pid_of_all = 0;                            // 0: each has an invalid number
  std::map<std::uint32_t, ControlSocket> service;  // their ends
  std::pair<std::uint32_t, std::uint32_t> renumbered;
};

class ServiceProcessesTest : public ::testing::Test {
 protected:
  void start(std::uint32_t count) {
    for (std::uint32_t sp = 0; sp < count; ++sp) ASSERT_TRUE(processes_.start(sp));
    for (std::uint32_t sp = 0; sp < count; ++sp) ASSERT_TRUE(processes_.connect(sp));
  }
  // The peers to which `sp` got rings since the last call.
  std::multiset<std::uint32_t> new_peers(std::uint32_t sp) {
    std::multiset<std::uint32_t> peers;
    while (true) {
      ControlSocket::Received received = starter_.service[sp].receive(0);
      if (received.event != ControlSocket::Event::message) return peers;
      EXPECT_EQ(received.message->kind(), ControlKind::peer_ring);
      peers.insert(received.message->body<PeerRingBody>().sp);
    }
  }
  // Messages of all events so far.
  std::vector<ServiceMessage> receive_all() {
    std::vector<ServiceMessage> messages;
    for (const Event& event : events_.wait(0)) {
      for (ServiceMessage& message : processes_.receive(event)) messages.push_back(std::move(message));
    }
    return messages;
  }

  Events events_;
  SocketStarter starter_;
  ServiceProcesses processes_{starter_, events_};
};

// Sleeps until it is killed.
class SleepingChild {
 public:
  SleepingChild() : pid_(::fork()) {
    while (pid_ == 0) ::pause();
    std::optional<ProcessSign> sign;
    do {
      sign = sign_of_process(pid_);
    } while (sign && sign->state != 'S');
  }
  SleepingChild(const SleepingChild&) = delete;
  SleepingChild& operator=(const SleepingChild&) = delete;
  ~SleepingChild() {
    if (pid_ > 0) (void)::kill(pid_, SIGKILL);
    if (pid_ > 0) (void)::waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] pid_t pid() const { return pid_; }
  // Waits for its end and returns the status.
  [[nodiscard]] int wait() {
    int status = 0;
    EXPECT_GT(::waitpid(std::exchange(pid_, -1), &status, 0), 0);
    return status;
  }

 private:
  pid_t pid_;
};

using Peers = std::multiset<std::uint32_t>;

TEST_F(ServiceProcessesTest, SleepingWithWorkIsKilledAfterTheLimit) {
  SleepingChild child;
  ASSERT_GT(child.pid(), 0);
  starter_.pid_of_all = child.pid();
  start(1);
  processes_.show_heartbeat(0);
  ASSERT_EQ(starter_.service[0].receive(0).event, ControlSocket::Event::message);
  processes_.shown(0)->heartbeat.asleep.store(1);
  constexpr std::uint32_t kLooksUntilLost = HungServices::kLooksUntilLost;
  for (std::uint32_t look = 0; look < 10 * kLooksUntilLost; ++look) processes_.look_for_hung({});
  for (std::uint32_t look = 1; look < kLooksUntilLost; ++look) processes_.look_for_hung({1});
  EXPECT_TRUE(processes_.take_lost().empty());
  processes_.look_for_hung({1});
  const std::vector<LostService> lost = processes_.take_lost();
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].how, "has slept for 12 s though work waits for it");
  const int status = child.wait();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST_F(ServiceProcessesTest, EachPairGetsItsRingsOnce) {
  start(3);
  EXPECT_EQ(new_peers(0), (Peers{1, 2}));
  EXPECT_EQ(new_peers(1), (Peers{0, 2}));
  EXPECT_EQ(new_peers(2), (Peers{0, 1}));
}

TEST_F(ServiceProcessesTest, RestartedProcessGetsNewRingsAndKeepsItsDoorbell) {
  start(3);
  for (std::uint32_t sp = 0; sp < 3; ++sp) (void)new_peers(sp);
  const int doorbell = processes_.doorbell(1);
  starter_.service[1].close();
  EXPECT_TRUE(receive_all().empty());
  ASSERT_EQ(processes_.take_lost().size(), 1U);
  ASSERT_TRUE(processes_.start(1));
  ASSERT_TRUE(processes_.connect(1));
  EXPECT_EQ(new_peers(0), (Peers{1}));
  EXPECT_EQ(new_peers(1), (Peers{0, 2}));
  EXPECT_EQ(new_peers(2), (Peers{1}));
  EXPECT_EQ(processes_.doorbell(1), doorbell);
  EXPECT_EQ(processes_.times_started(1), 2U);
  EXPECT_EQ(processes_.times_started(0), 1U);
}

TEST_F(ServiceProcessesTest, StandbyHasNoPeersUntilItTakesAPlace) {
  start(2);
  for (std::uint32_t sp = 0; sp < 2; ++sp) (void)new_peers(sp);
  ASSERT_TRUE(processes_.start_standby());
  ASSERT_TRUE(processes_.connect(0));
  EXPECT_EQ(new_peers(0), Peers{});
  EXPECT_EQ(new_peers(2), Peers{});
  const int doorbell = processes_.doorbell(2);
  starter_.service[1].close();
  EXPECT_TRUE(receive_all().empty());
  ASSERT_EQ(processes_.take_lost().size(), 1U);

  processes_.replace(1);
  EXPECT_FALSE(processes_.has_standby());
  EXPECT_EQ(starter_.renumbered, std::pair(2U, 1U));
  EXPECT_EQ(processes_.count(), 2U);
  EXPECT_EQ(processes_.doorbell(1), doorbell);
  EXPECT_EQ(processes_.times_started(1), 2U);
  ASSERT_TRUE(processes_.connect(1));
  EXPECT_EQ(new_peers(0), (Peers{1}));
  EXPECT_EQ(new_peers(2), (Peers{0})) << "the process that stood by";

  // Its messages and its end count for number 1 now.
  ASSERT_TRUE(starter_.service[2].send(ControlKind::fault_report, make_fault_report(7, "a bad slot")));
  const std::vector<ServiceMessage> messages = receive_all();
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].sp, 1U);
  starter_.service[2].close();
  EXPECT_TRUE(receive_all().empty());
  const std::vector<LostService> lost = processes_.take_lost();
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].sp, 1U);
}

TEST_F(ServiceProcessesTest, LostStandbyIsStartedAgain) {
  start(1);
  ASSERT_TRUE(processes_.start_standby());
  starter_.service[1].close();
  EXPECT_TRUE(receive_all().empty());
  ASSERT_EQ(processes_.take_lost().size(), 1U);
  ASSERT_TRUE(processes_.start_standby());
  EXPECT_EQ(processes_.count(), 2U);
  EXPECT_TRUE(processes_.has_standby());
}

TEST_F(ServiceProcessesTest, LossIsReportedOnceWithTheFaultReport) {
  start(2);
  (void)new_peers(1);
  ASSERT_TRUE(starter_.service[1].send(ControlKind::fault_report, make_fault_report(kWholeJob, "no network")));
  ASSERT_TRUE(starter_.service[1].send(ControlKind::fault_report, make_fault_report(7, "a bad slot")));
  starter_.service[1].close();
  const std::vector<ServiceMessage> messages = receive_all();
  ASSERT_EQ(messages.size(), 1U) << "its captured stderr is no message";
  EXPECT_EQ(messages[0].sp, 1U);
  EXPECT_EQ(messages[0].message.body<FaultReportBody>().world_rank, 7U);
  const std::vector<LostService> lost = processes_.take_lost();
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].sp, 1U);
  EXPECT_EQ(lost[0].pid, 101);
  EXPECT_EQ(lost[0].how, "has gone (no network)");
  EXPECT_TRUE(receive_all().empty());
  EXPECT_TRUE(processes_.take_lost().empty());
}

TEST_F(ServiceProcessesTest, ProcessMayAskToBeReplaced) {
  start(2);
  ASSERT_TRUE(
      starter_.service[1].send(ControlKind::fault_report, make_fault_report(kBeginAnew, "has lost its connection")));
  starter_.service[1].close();
  EXPECT_TRUE(receive_all().empty());
  const std::vector<LostService> lost = processes_.take_lost();
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].how, "has lost its connection");
  EXPECT_TRUE(lost[0].killed) << "as if it had been";
  ASSERT_TRUE(processes_.start(1));
  starter_.service[1].close();
  EXPECT_TRUE(receive_all().empty());
  EXPECT_FALSE(processes_.take_lost().at(0).killed) << "the new one has asked for nothing";
}

TEST_F(ServiceProcessesTest, MessagesThatDoNotFitWaitInOrderWithTheirDescriptors) {
  start(1);
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const UniqueFd reading(pipe[0]);
  UniqueFd writing(pipe[1]);
  constexpr std::uint32_t kMany = 5000;
  for (std::uint32_t i = 0; i < kMany; ++i) {
    const int fd = writing.get();
    processes_.tell(0, ControlKind::region_add, RegionBody{0, i, 4096, 4096}, std::span(&fd, 1));
  }
  EXPECT_TRUE(processes_.backlogged());
  writing.reset();
  std::uint32_t next = 0;
  while (next < kMany) {
    ControlSocket::Received received = starter_.service[0].receive(0);
    if (received.event == ControlSocket::Event::nothing) {
      ASSERT_TRUE(receive_all().empty());
      continue;
    }
    ASSERT_EQ(received.event, ControlSocket::Event::message) << next;
    ASSERT_EQ(received.message->body<RegionBody>().region, next) << "in order";
    ASSERT_EQ(::write(received.message->fds()[0].get(), "x", 1), 1);
    ++next;
  }
  EXPECT_FALSE(processes_.backlogged());
  EXPECT_TRUE(events_.wait(0).empty()) << "nobody waits to write any more";
}

}  // namespace
}  // namespace outrigger::service
