// Trace events of a service process on a DPU reach its rank's event memory, with times of the rank's node.
#include "service/dpu/host/trace_of_dpu.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <ctime>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "service/dpu/daemon/kept_events.hpp"

namespace outrigger::service {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint32_t kTracedRank = 7;
constexpr std::int64_t kHourNs = 3'600'000'000'000;

std::int64_t now_ns() {
  return time_on(CLOCK_MONOTONIC).count();
}

trace::Event moved_at(std::int64_t ns, std::uint64_t subject) {
  trace::Event event;
  event.kind = static_cast<std::uint8_t>(trace::EventKind::move);
  event.began_ns = ns;
  event.ended_ns = ns + 10;
  event.subject = subject;
  return event;
}

class TraceOfDpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> fds{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds.data()), 0);
    host_ = DpuLink(UniqueFd(fds[0]));
    dpu_ = DpuLink(UniqueFd(fds[1]));
    Result<trace::Memory> made = trace::Memory::create();
    ASSERT_TRUE(made) << made.error();
    memory_ = std::move(made).value();
    rank_.hello.world_rank = kTracedRank;
    rank_.sp = 3;
    rank_.trace_fd = UniqueFd(::dup(memory_.fd()));
  }
  [[nodiscard]] trace::Header& header() const { return memory_.header(); }
  [[nodiscard]] std::uint64_t events() const { return header().service_events.load(); }
  [[nodiscard]] bool settled() const { return header().settled.load() != 0; }

  std::optional<DpuFrame> heard_by_dpu() {
    dpu_.work(Clock::now());
    return dpu_.next();
  }
  // The host's turn. Error: the DPU's message is malformed.
  Status turn() {
    host_.work(Clock::now());
    while (const std::optional<DpuFrame> frame = host_.next()) {
      if (Status taken = trace_.take(*frame, Clock::now()); !taken) return taken;
    }
    trace_.work(Clock::now());
    return Done{};
  }

  DpuLink host_;
  DpuLink dpu_;
  trace::Memory memory_;
  LocalRank rank_;
  TraceOfDpu trace_{host_};
};

TEST_F(TraceOfDpuTest, EventsSoFarAreInMemoryWhenTheRankAsks) {
  EXPECT_FALSE(trace_.next_look()) << "without a trace nothing is to be done";
  trace_.name_dpu("thor-bf01");
  trace_.show(rank_, Clock::now());
  EXPECT_EQ(report::text_in(header().about.dpu), "thor-bf01");
  KeptEvents kept;
  std::optional<trace::Memory> written;
  std::uint64_t noted = 0;
  const auto until = [&](const auto& done) {
    const auto deadline = Clock::now() + std::chrono::seconds(10);
    while (!done() && Clock::now() < deadline) {
      ASSERT_TRUE(turn());
      const std::optional<DpuFrame> frame = heard_by_dpu();
      if (!frame) continue;
      if (frame->kind == DpuFrameKind::trace) {
        EXPECT_EQ(frame->sp, 3U);
        const Result<KeptEvents::OfRank> made = kept.add(decoded<DpuTraced>(frame->packet)->world_rank, frame->sp);
        ASSERT_TRUE(made) << made.error();
        EXPECT_FALSE(kept.add(kTracedRank, frame->sp));
        Result<trace::Memory> opened = trace::Memory::open(UniqueFd(::dup(made.value().fd)));
        ASSERT_TRUE(opened);
        written = std::move(opened).value();
      } else if (frame->kind == DpuFrameKind::trace_ask) {
        kept.answer(dpu_, *decoded<DpuTraceAsk>(frame->packet));
      }
    }
    ASSERT_TRUE(done());
  };
  until([&] { return written.has_value() && !trace_.next_look(); });
  EXPECT_EQ(header().shared.load(), 0U) << "its service process has not said that it notes anything";
  written->header().shared = 1;
  until([&] { return header().shared.load() == 1; });

  const std::int64_t began = now_ns();
  for (; noted < trace::kEvents + 5; ++noted) (void)written->service_buffer().add(moved_at(began, noted));
  trace_.settle(kTracedRank, Clock::now());
  EXPECT_FALSE(settled());
  until([&] { return settled(); });
  EXPECT_EQ(events(), trace::kEvents);
  EXPECT_EQ(header().service_events_lost.load(), 5U);
  for (std::uint64_t i = 0; i < trace::kEvents; ++i) ASSERT_EQ(memory_.service_events()[i].subject, i);
  EXPECT_LE(std::abs(memory_.service_events()[0].began_ns - began), header().about.dpu_clock_error_ns);
  ASSERT_EQ(kept.of_place(3).size(), 1U) << "for the one that takes its place";
  EXPECT_TRUE(kept.of_place(2).empty());
}

// A DPU whose clock is an hour ahead.
class AheadTest : public TraceOfDpuTest {
 protected:
  // Answers the next question; `events` if it asks for some.
  DpuTraceAsk answer(const std::vector<trace::Event>& events = {}, std::uint32_t of_rank = kTracedRank) {
    std::optional<DpuFrame> frame = heard_by_dpu();
    while (frame && frame->kind != DpuFrameKind::trace_ask) frame = heard_by_dpu();
    EXPECT_TRUE(frame);
    const DpuTraceAsk ask = *decoded<DpuTraceAsk>(frame->packet);
    if (ask.events != 0 && !events.empty()) say(events, of_rank);
    DpuTraceTold told{ask.number, now_ns() + kHourNs, 0, 1};
    dpu_.send(DpuFrameKind::trace_told, 0, encoded(told));
    return ask;
  }
  void say(const std::vector<trace::Event>& events, std::uint32_t of_rank) {
    const trace::RemoteEvents told{of_rank, 0, events};
    dpu_.send(DpuFrameKind::trace_events, 0, {}, encoded(told));
  }
};

TEST_F(AheadTest, ItsTimesAreThoseOfThisNode) {
  trace_.show(rank_, Clock::now());
  trace_.settle(kTracedRank, Clock::now());
  const std::int64_t now = now_ns();
  while (answer({moved_at(now + kHourNs, 1)}).events == 0) ASSERT_TRUE(turn());
  ASSERT_TRUE(turn());
  EXPECT_TRUE(settled());
  ASSERT_EQ(events(), 1U);
  const trace::Event& event = memory_.service_events()[0];
  EXPECT_LE(std::abs(event.began_ns - now), header().about.dpu_clock_error_ns);
  EXPECT_GT(header().about.dpu_clock_error_ns, 0);
  EXPECT_EQ(header().shared.load(), 1U);
}

TEST_F(AheadTest, UnexpectedAnswersAreRefused) {
  trace_.show(rank_, Clock::now());
  trace_.settle(kTracedRank, Clock::now());
  say({moved_at(1, 1)}, kTracedRank);
  EXPECT_FALSE(turn()) << "no clocks have been compared";
  while (answer({moved_at(1, 1)}, kTracedRank + 1).events == 0) ASSERT_TRUE(turn());
  EXPECT_FALSE(turn()) << "a rank that has no trace here";
  DpuTraceTold other{1'000, 0, 0, 1};
  dpu_.send(DpuFrameKind::trace_told, 0, encoded(other));
  EXPECT_FALSE(turn()) << "an answer to another question";
}

TEST_F(TraceOfDpuTest, DoesNotWaitAfterTheDpuHasLeft) {
  trace_.show(rank_, Clock::now());
  trace_.settle(kTracedRank, Clock::now());
  trace_.begin_last_round();
  EXPECT_FALSE(settled());
  EXPECT_FALSE(trace_.last_round_is_over());
  trace_.end();
  EXPECT_TRUE(settled());
  EXPECT_TRUE(trace_.last_round_is_over());
  EXPECT_GT(header().about.left_dpu_ns, 0);
  EXPECT_FALSE(trace_.next_look());
}

}  // namespace
}  // namespace outrigger::service
