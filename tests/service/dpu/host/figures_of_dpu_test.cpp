// Counters of service processes on a DPU reach the host's keeper, which validates them.
#include "service/dpu/host/figures_of_dpu.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "service/dpu/daemon/kept_figures.hpp"

namespace outrigger::service {
namespace {

using Clock = std::chrono::steady_clock;

bool operator==(const DpuLinkFigures& one, const DpuLinkFigures& other) {
  return one.node == other.node && one.sent_bytes == other.sent_bytes && one.received_bytes == other.received_bytes;
}

class FiguresOfDpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> fds{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds.data()), 0);
    host_ = DpuLink(UniqueFd(fds[0]));
    dpu_ = DpuLink(UniqueFd(fds[1]));
  }
  static std::unique_ptr<ServicePages> pages(std::uint32_t node, std::uint64_t sent, std::uint64_t received) {
    auto made = std::make_unique<ServicePages>();
    made->links[node].sent(sent);
    made->links[node].received(received);
    made->host_memory.received(10 * sent);
    made->host_memory.sent(10 * received);
    return made;
  }
  std::optional<DpuFiguresAsk> asked() {
    dpu_.work(Clock::now());
    const std::optional<DpuFrame> frame = dpu_.next();
    if (!frame) return std::nullopt;
    EXPECT_EQ(frame->kind, DpuFrameKind::figures_ask);
    return decoded<DpuFiguresAsk>(frame->packet);
  }
  Status hear() {
    host_.work(Clock::now());
    const std::optional<DpuFrame> frame = host_.next();
    if (!frame) return Error{"nothing has come"};
    EXPECT_EQ(frame->kind, DpuFrameKind::figures);
    return figures_.take(*frame);
  }

  DpuLink host_;
  DpuLink dpu_;
  FiguresOfDpu figures_{host_};
};

TEST_F(FiguresOfDpuTest, CountAllServiceProcessesThatHaveRun) {
  figures_.name_dpu("thor-bf01");
  EXPECT_TRUE(figures_.answered()) << "nobody has asked";
  figures_.ask();
  figures_.ask();
  EXPECT_FALSE(figures_.answered());
  const std::optional<DpuFiguresAsk> ask = asked();
  ASSERT_TRUE(ask);
  EXPECT_FALSE(asked()) << "one question at a time";

  KeptFigures kept;
  const auto dead = pages(2, 1, 0);
  const auto first = pages(2, 100, 20);
  const auto second = pages(kLinkPlaces - 1, 3000, 400);
  kept.keep(dead.get());
  kept.keep(nullptr);
  kept.answer(dpu_, *ask, std::array<const ServicePages*, 3>{first.get(), nullptr, second.get()});
  const Status heard = hear();
  ASSERT_TRUE(heard) << heard.error();
  EXPECT_TRUE(figures_.answered());
  EXPECT_EQ(figures_.latest().name, "thor-bf01");
  const DpuFigures& told = figures_.latest().figures;
  EXPECT_EQ(told.read_bytes, 31'010U);
  EXPECT_EQ(told.written_bytes, 4'200U);
  ASSERT_EQ(told.links.size(), 2U) << "nodes with which nothing has been exchanged are not told";
  EXPECT_TRUE(told.links[0] == (DpuLinkFigures{2, 101, 20}));
  EXPECT_TRUE(told.links[1] == (DpuLinkFigures{kLinkPlaces - 1, 3000, 400}));
}

TEST_F(FiguresOfDpuTest, UnexpectedAnswersAreRefused) {
  const KeptFigures none;
  none.answer(dpu_, DpuFiguresAsk{0}, {});
  EXPECT_FALSE(hear()) << "before any question";
  figures_.ask();
  none.answer(dpu_, DpuFiguresAsk{7}, {});
  EXPECT_FALSE(hear()) << "to another question";
  EXPECT_FALSE(figures_.answered());
  none.answer(dpu_, *asked(), {});
  EXPECT_TRUE(hear());
}

TEST_F(FiguresOfDpuTest, DoesNotWaitForALostDpu) {
  figures_.ask();
  host_.close();
  EXPECT_TRUE(figures_.answered());
  figures_.ask();
}

TEST(DpuFigures, EveryFieldIsChecked) {
  const auto refused = [](const std::vector<DpuLinkFigures>& links) {
    return !decoded<DpuFigures>(encoded(DpuFigures{1, 2, 3, links}));
  };
  const std::vector<DpuLinkFigures> two{{1, 5, 6}, {2, 7, 8}};
  EXPECT_FALSE(refused(two));
  EXPECT_FALSE(refused({}));
  EXPECT_TRUE(refused({two[1], two[0]}));
  EXPECT_TRUE(refused({two[0], two[0]}));
  EXPECT_TRUE(refused({{kLinkPlaces, 1, 1}}));
  EXPECT_TRUE(refused(std::vector<DpuLinkFigures>(kLinkPlaces + 1)));
  std::vector<std::byte> bytes = encoded(DpuFigures{1, 2, 3, two});
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(decoded<DpuFigures>(std::span(bytes).first(length))) << length;
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(decoded<DpuFigures>(bytes)) << "more than it says";
}

}  // namespace
}  // namespace outrigger::service
