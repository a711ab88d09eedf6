// The host's keeper when service processes on its DPU die: its messages to the DPU and the ranks. The test plays the
// DPU.
#include "service/dpu/host/dpu_services.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/any_port.hpp"
#include "proof/dpu_handshake.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::service {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kPlaces = 2;
constexpr std::uint32_t kRanksThere = 2;
constexpr milliseconds kCallLimit{10'000};
constexpr milliseconds kTick{10};
constexpr milliseconds kQuiet{100};  // longer than the pause after a death

class DpuServicesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<ListeningPort> listener = listen_at_any_port(1);
    ASSERT_TRUE(listener) << listener.error();
    config_.world_size = config_.local_size = kRanksThere;
    config_.claims = {"dpu-" + std::to_string(::getpid()), "mine"};
    config_.copy_cpus = {usable_cpus().back()};
    config_.dpu = "127.0.0.1:" + std::to_string(listener.value().port);
    ranks_.emplace(events_, kRanksThere, kRanksThere);
    for (std::uint32_t rank = 0; rank < kRanksThere; ++rank) admit(rank);
    nodes_.emplace(config_, events_);
    services_.emplace(config_, *ranks_, events_, *nodes_);
    std::thread dpu([&] { answer_the_call(listener.value().socket.get()); });
    const Status started = services_->start();
    dpu.join();
    ASSERT_TRUE(started) << started.error();
    events_.watch(link_.fd(), {Source::other_node, 0});
  }

  void admit(std::uint32_t rank) {
    std::array<int, 2> fds{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()), 0);
    NewRank new_rank;
    new_rank.socket = ControlSocket(UniqueFd(fds[0]));
    new_rank.hello.world_rank = new_rank.hello.local_rank = rank;
    new_rank.hello.world_size = new_rank.hello.local_size = kRanksThere;
    ranks_->admit(std::move(new_rank));
    theirs_[rank] = ControlSocket(UniqueFd(fds[1]));
  }
  void answer_the_call(int listener) {
    pollfd awaited{listener, POLLIN, 0};
    ASSERT_EQ(::poll(&awaited, 1, static_cast<int>(kCallLimit.count())), 1);
    UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    ASSERT_TRUE(proof::run_dpu_handshake(socket.get(), proof::DpuHandshake::Side::dpu, config_.dpu_secret,
                                         Clock::now() + kCallLimit));
    link_ = DpuLink(std::move(socket));
    while (!link_.next()) link_.work(Clock::now());
    DpuReady ready;
    ready.services = kPlaces;
    link_.send(DpuFrameKind::ready, 0, encoded(ready));
    link_.work(Clock::now());
  }

  // Advances the clock while nothing happens. Local messages arrive within a millisecond.
  void turn() {
    link_.work(now_);
    while (std::optional<DpuFrame> frame = link_.next()) {
      if (frame->kind != DpuFrameKind::alive) heard_.push_back(std::move(*frame));
    }
    (void)services_->receive({Source::clock, 0});
    if (events_.wait(1).empty()) now_ += kTick;
  }
  template <class Done>
  void until(const Done& done) {
    const auto deadline = Clock::now() + kCallLimit;
    bool over = done();
    while (!over && Clock::now() < deadline) {
      turn();
      over = done();
    }
    ASSERT_TRUE(over);
  }
  void for_a_while() {
    const auto end = now_ + kQuiet;
    while (now_ < end) turn();
  }

  // Control messages to the process that has this number at the DPU.
  [[nodiscard]] std::vector<ControlMessage> control_to(std::uint32_t called) const {
    std::vector<ControlMessage> messages;
    for (const DpuFrame& frame : heard_) {
      if (frame.kind != DpuFrameKind::control || frame.sp != called) continue;
      std::vector<UniqueFd> fds;
      if (!frame.attached.empty()) fds.emplace_back(::dup(0));
      Result<ControlMessage> message = decode_control(frame.packet, std::move(fds));
      EXPECT_TRUE(message) << message.error();
      if (message) messages.push_back(std::move(message).value());
    }
    return messages;
  }
  [[nodiscard]] std::size_t count(DpuFrameKind kind, std::uint32_t called) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(heard_, [&](const DpuFrame& frame) { return frame.kind == kind && frame.sp == called; }));
  }
  [[nodiscard]] SegmentHeader& header(std::uint32_t rank) {
    return SegmentView((*ranks_)[rank].segment.base()).header();
  }

  // A message of the DPU.
  void wired(std::uint32_t called, std::uint32_t rank, bool ok = true) {
    RankWiredBody body;
    body.world_rank = rank;
    body.ok = ok ? 1 : 0;
    link_.send(DpuFrameKind::control, called, encode_control(ControlKind::rank_wired, body));
  }
  void lost(std::uint32_t called, bool killed = true) {
    DpuLost said;
    said.killed = killed ? 1 : 0;
    std::string("(pid 7) was killed by signal 9 (Killed)").copy(said.how.data(), said.how.size() - 1);
    link_.send(DpuFrameKind::lost, called, encoded(said));
  }
  // Connects all ranks to all service processes; the ranks then stop using their networks.
  void connect_all() {
    const std::vector<std::byte> address(8);
    const Result<UniqueFd> fd = share_bytes("outrigger-test", address);
    ASSERT_TRUE(fd);
    for (const LocalRank& rank : *ranks_) {
      ASSERT_TRUE(services_->pass_rank_address(rank, SharedBytesBody{address.size(), 0, 0}, fd.value()));
    }
    for (std::uint32_t rank = 0; rank < kRanksThere; ++rank) {
      for (const std::uint32_t called : {0U, 1U}) wired(called, rank);
    }
    until([&] { return told_to_be_quiet(); });
  }
  void run_job() {
    connect_all();
    services_->attached();
    until([&] { return control_to(dpu_standby(kPlaces)).size() == 1U + kRanksThere; });
    EXPECT_EQ(header(0).dpu_calls.load(), kDpuCalls);
    for (std::uint32_t rank = 0; rank < kRanksThere; ++rank) wired(dpu_standby(kPlaces), rank);
    until([&] { return header(0).dpu_calls.load() == 0 && header(1).dpu_calls.load() == 0; });
  }
  [[nodiscard]] bool told_to_be_quiet() {
    const ControlSocket::Received received = theirs_[0].receive(0);
    return received.event == ControlSocket::Event::message && received.message->kind() == ControlKind::be_quiet;
  }

  KeeperConfig config_;
  Clock::time_point now_ = Clock::now();
  Events events_{[this] { return now_; }};
  std::optional<LocalRanks> ranks_;
  std::array<ControlSocket, kRanksThere> theirs_;
  std::optional<OtherNodes> nodes_;
  std::optional<DpuServices> services_;
  DpuLink link_;
  std::vector<DpuFrame> heard_;
};

TEST_F(DpuServicesTest, ClaimsCopyCoresWhileItLives) {
  const auto others = [this] { return other_jobs(read_claims(config_.claims.scope), "another"); };
  const auto copy_cpu = static_cast<std::size_t>(config_.copy_cpus.front());
  EXPECT_TRUE(others().services.test(copy_cpu));
  EXPECT_FALSE(CoreClaims({config_.claims.scope, "another"}).claim_service(config_.copy_cpus));
  services_.reset();
  EXPECT_FALSE(others().services.test(copy_cpu));
}

TEST_F(DpuServicesTest, StartsAStandby) {
  EXPECT_EQ(header(1).dpu_process.load(), 1U);
  for_a_while();
  EXPECT_TRUE(control_to(dpu_standby(kPlaces)).empty()) << "ranks start without it";
  run_job();
  EXPECT_EQ(count(DpuFrameKind::standby, dpu_standby(kPlaces)), 1U);
  std::vector<ControlMessage> said = control_to(dpu_standby(kPlaces));
  ASSERT_EQ(said[0].kind(), ControlKind::configure);
  EXPECT_EQ(said[0].body<ConfigureBody>().epoch, 0U);
  EXPECT_EQ(said[0].body<ConfigureBody>().process, kPlaces);
  EXPECT_EQ(said[0].body<ConfigureBody>().sp_count, kPlaces);
  EXPECT_EQ(control_to(dpu_standby(kPlaces)).size(), 1U + kRanksThere) << "it is told of all ranks";
  EXPECT_EQ(header(0).dpu_calls.load(), 0U);
}

TEST_F(DpuServicesTest, StandbyReplacesADeadProcessAndRanksConnectTheNextOne) {
  run_job();
  lost(1);
  until([&] { return control_to(1).size() == 1 + kRanksThere + 2; });
  EXPECT_EQ(count(DpuFrameKind::replace, 1), 1U);
  std::vector<ControlMessage> said = control_to(1);
  ASSERT_EQ(said[1 + kRanksThere].kind(), ControlKind::take_place);
  const auto place = said[1 + kRanksThere].body<TakePlaceBody>();
  EXPECT_EQ(place.sp, 1U);
  EXPECT_EQ(place.epoch, 2U);
  EXPECT_EQ(said.back().kind(), ControlKind::introduced);
  EXPECT_EQ(services_->times_started(1), 2U);
  EXPECT_EQ(services_->times_started(0), 1U);
  EXPECT_EQ(header(0).dpu_process.load(), 0U);
  EXPECT_EQ(header(1).dpu_process.load(), kPlaces) << "the rank that it serves";

  const std::uint32_t next = dpu_standby(kPlaces + 1);
  until([&] { return control_to(next).size() == 1 + kRanksThere; });
  EXPECT_EQ(header(0).dpu_calls.load(), 1U);
  wired(next, 0);
  until([&] { return header(0).dpu_calls.load() == 0; });
  EXPECT_EQ(header(1).dpu_calls.load(), 1U);
  wired(next, 1);
  until([&] { return header(1).dpu_calls.load() == 0; });
  EXPECT_FALSE(services_->failure());
}

TEST_F(DpuServicesTest, ProcessesThatDieTogetherAreReplacedBeforeRanksAreConnected) {
  run_job();
  lost(0);
  lost(1);
  until([&] { return count(DpuFrameKind::replace, 1) == 1; });
  EXPECT_EQ(count(DpuFrameKind::replace, 0), 1U);
  EXPECT_EQ(header(0).dpu_process.load(), kPlaces);
  EXPECT_EQ(header(1).dpu_process.load(), kPlaces + 1);
  EXPECT_EQ(header(1).dpu_calls.load(), 1U);
  // The standby got place 1; earlier messages still use its old number.
  wired(dpu_standby(kPlaces + 1), 0);
  wired(1, 1);
  wired(dpu_standby(kPlaces + 2), 0);
  wired(dpu_standby(kPlaces + 2), 1);
  until([&] { return header(0).dpu_calls.load() == 0 && header(1).dpu_calls.load() == 0; });
  EXPECT_FALSE(services_->failure());
}

TEST_F(DpuServicesTest, ProcessThatDiesWhileItTakesAPlaceIsReplaced) {
  run_job();
  lost(0);
  until([&] { return count(DpuFrameKind::replace, 0) == 1; });
  lost(dpu_standby(kPlaces));  // sent before the DPU knew its new number
  until([&] { return count(DpuFrameKind::replace, 0) == 2; });
  EXPECT_EQ(services_->times_started(0), 3U);
  EXPECT_FALSE(services_->failure());
}

TEST_F(DpuServicesTest, DeadStandbyIsReplaced) {
  run_job();
  lost(dpu_standby(kPlaces));
  until([&] { return count(DpuFrameKind::standby, dpu_standby(kPlaces + 1)) == 1; });
  lost(0);
  until([&] { return count(DpuFrameKind::replace, 0) == 1; });
  EXPECT_EQ(header(0).dpu_process.load(), kPlaces + 1);
  EXPECT_FALSE(services_->failure());
}

TEST_F(DpuServicesTest, DoesNotWaitForRanksThatHaveLeft) {
  run_job();
  lost(0);
  const std::uint32_t next = dpu_standby(kPlaces + 1);
  until([&] { return control_to(next).size() == 1 + kRanksThere; });
  (*ranks_).leave(1);
  services_->rank_left((*ranks_).left().back());
  wired(next, 0);
  until([&] { return header(0).dpu_calls.load() == 0; });
  until([&] { return control_to(next).back().kind() == ControlKind::rank_left; });
}

TEST_F(DpuServicesTest, StandbyIsToldOfRanksThatHadLeftBefore) {
  run_job();
  const std::uint32_t sp = (*ranks_)[1].sp;
  (*ranks_).leave(1);
  services_->rank_left((*ranks_).left().back());
  lost(0);
  until([&] { return !control_to(0).empty() && control_to(0).back().kind() == ControlKind::introduced; });
  std::vector<ControlMessage> said = control_to(0);
  const auto place = std::ranges::find(said, ControlKind::take_place, &ControlMessage::kind);
  const auto left = std::find_if(
      place, said.end(), [](const ControlMessage& message) { return message.kind() == ControlKind::rank_left; });
  ASSERT_NE(left, said.end());
  EXPECT_EQ(left->body<RankLeftBody>().world_rank, 1U);
  EXPECT_EQ(left->body<RankLeftBody>().sp, sp);
}

TEST_F(DpuServicesTest, NoReplacementAfterTooManyDeaths) {
  run_job();
  for (std::uint32_t times = 1; times <= 6; ++times) {
    lost(0);
    until([&] { return count(DpuFrameKind::replace, 0) == times; });
  }
  EXPECT_FALSE(services_->failure());
  lost(0);
  until([&] { return services_->failure().has_value(); });
  EXPECT_NE(services_->failure()->find("service process 0 on DPU"), std::string::npos) << *services_->failure();
  EXPECT_NE(services_->failure()->find("7 have died within 60 s in its place"), std::string::npos)
      << *services_->failure();
}

TEST_F(DpuServicesTest, NoReplacementAfterAFaultReport) {
  run_job();
  lost(0, false);
  until([&] { return services_->failure().has_value(); });
  EXPECT_EQ(count(DpuFrameKind::replace, 0), 0U);
}

// E.g. if the network reaches memory only with the rank's help, which shows when ranks stop using it.
TEST_F(DpuServicesTest, ConnectedButUnreachableRanksAreRefusedWithTheReason) {
  connect_all();
  EXPECT_FALSE(services_->failure());
  wired(1, 0, false);
  until([&] { return services_->failure().has_value(); });
  EXPECT_NE(services_->failure()->find("does not reach rank 0"), std::string::npos) << *services_->failure();
}

TEST_F(DpuServicesTest, UnreachableRankIsReportedOnlyWhenTheStandbyIsNeeded) {
  run_job();
  lost(0);
  const std::uint32_t next = dpu_standby(kPlaces + 1);
  until([&] { return count(DpuFrameKind::standby, next) == 1; });
  wired(next, 1, false);
  until([&] { return header(1).dpu_calls.load() == 0; });
  EXPECT_FALSE(services_->failure());
  lost(1);
  until([&] { return services_->failure().has_value(); });
  EXPECT_NE(services_->failure()->find("does not reach rank 1"), std::string::npos) << *services_->failure();
}

TEST_F(DpuServicesTest, ReplaceableSoonAfterTheDaemonHasEnded) {
  EXPECT_FALSE(services_->replaceable_after()) << "ranks go natively as long as they are not served";
  run_job();
  link_.close();
  until([&] { return services_->failure().has_value(); });
  ASSERT_TRUE(services_->replaceable_after());
  EXPECT_GT(*services_->replaceable_after(), kDpuWorkAfterLook);
  EXPECT_LT(*services_->replaceable_after(), kDpuSilence);
}

TEST_F(DpuServicesTest, SilentDaemonIsReplaceableAfterATimeout) {
  run_job();
  lost(0, false);
  until([&] { return services_->failure().has_value(); });
  ASSERT_TRUE(services_->replaceable_after());
  EXPECT_GT(*services_->replaceable_after(), kDpuSilence + kDpuWorkAfterLook);
}

TEST_F(DpuServicesTest, NotReplaceableWithoutCrossMemoryAttach) {
  config_.reach_allowed &= ~kReachCma;
  run_job();
  link_.close();
  until([&] { return services_->failure().has_value(); });
  EXPECT_FALSE(services_->replaceable_after());
}

}  // namespace
}  // namespace outrigger::service
