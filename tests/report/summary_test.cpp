// Merges the ranks' ledgers, including broken and hostile ones.
#include "report/summary.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ledgers.hpp"
#include "report/json.hpp"

namespace outrigger::report {
namespace {

constexpr CallKind kBlocking{CollectiveCall::alltoallv, CallForm::blocking};
constexpr CallKind kNonblocking{CollectiveCall::alltoallv, CallForm::nonblocking};

std::uint64_t& native(LedgerRow& row, NativeReason reason) {
  return row.native[static_cast<std::size_t>(reason)];
}

TEST(Summary, TimesThatCannotBeDoNotOverflow) {
  Ledger ledger = make_ledger(0, 3);
  LedgerRow& row = add_row(ledger, kNonblocking, 1);
  row.offloaded = 1;
  row.post_ns = row.completion_ns = row.call_ns = row.wait_ns = row.test_ns = row.before_wait_ns =
      std::numeric_limits<std::int64_t>::max();
  ledger.header().started_ns = std::numeric_limits<std::int64_t>::min();
  Summary summary;
  for (int rank = 0; rank < 12; ++rank) ASSERT_TRUE(add_ledger(summary, ledger.bytes(), kSecond));
  EXPECT_GT(summary.calls.begin()->second.total.post_ns, 0);
  row.post_ns = row.completion_ns = row.call_ns = row.wait_ns = row.test_ns = row.before_wait_ns = -1;
  EXPECT_EQ(summary.outside_seconds.sum, 0);
  Summary other;
  ASSERT_TRUE(add_ledger(other, ledger.bytes(), kSecond));
  EXPECT_EQ(other.calls.begin()->second.seconds.sum, 0);
}

LedgerRow& add_phase(Ledger& ledger, const char* name, std::uint64_t entered) {
  LedgerRow& row = ledger.row(ledger.header().row_count++);
  row.group = kPhases;
  row.entered = entered;
  row.inside_ns = kSecond * static_cast<std::int64_t>(entered);
  row.call_ns = kSecond / 2;
  row.meetings = 2;
  row.meeting_ns = kSecond / 4;
  row.calls = 3;
  row.offloaded = 2;
  row.bytes = 10;
  set_text(row.name, name);
  return row;
}

TEST(Summary, PhasesAreNoCalls) {
  Ledger first = make_ledger(0);
  Ledger second = make_ledger(1);
  add_phase(first, "solve", 2);
  add_phase(second, "solve", 1);
  add_phase(second, "write \"it\"", 1).inside_ns = std::numeric_limits<std::int64_t>::min();
  Summary summary;
  ASSERT_TRUE(add_ledger(summary, first.bytes(), kSecond));
  ASSERT_TRUE(add_ledger(summary, second.bytes(), kSecond));
  EXPECT_TRUE(summary.calls.empty() && summary.collectives.empty());
  ASSERT_EQ(summary.phases.size(), 2U);
  const PhaseFigures& solve = summary.phases.at("solve");
  EXPECT_EQ(solve.total.entered, 3U);
  EXPECT_EQ(solve.total.calls, 6U);
  EXPECT_EQ(solve.total.offloaded, 4U);
  EXPECT_EQ(solve.inside.ranks, 2U);
  EXPECT_DOUBLE_EQ(solve.inside.sum, 3);
  EXPECT_DOUBLE_EQ(solve.collectives.sum, 1);
  EXPECT_EQ(solve.inside.most, 0U);
  EXPECT_DOUBLE_EQ(solve.outside.max, 1.5);
  EXPECT_DOUBLE_EQ(solve.meetings.sum, 4);
  EXPECT_DOUBLE_EQ(solve.meeting.sum, 0.5);
  EXPECT_DOUBLE_EQ(solve.other.sum, 0.5);
  EXPECT_EQ(summary.phases.at("write \"it\"").inside.sum, 0);
  EXPECT_EQ(summary.phases.at("write \"it\"").outside.sum, 0);
  const auto phases = nlohmann::json::parse(as_json(summary))["phases"];
  EXPECT_EQ(phases[0]["phase"], "solve");
  EXPECT_EQ(phases[1]["phase"], "write \"it\"");
  EXPECT_EQ(phases[1]["entered"], 1);
}

TEST(Summary, RanksMeetInSomeCalls) {
  const Ledger ledger = make_ledger(0);
  LedgerRow& row = ledger.row(0);
  const auto meets = [&](CollectiveCall call, CallForm form, std::uint32_t size) {
    row.kind = static_cast<std::uint32_t>(index_of(CallKind{call, form}));
    row.size = size;
    return row.is_of_meetings(4);
  };
  EXPECT_TRUE(meets(CollectiveCall::allreduce, CallForm::blocking, 4));
  EXPECT_FALSE(meets(CollectiveCall::allreduce, CallForm::blocking, 2));
  EXPECT_FALSE(meets(CollectiveCall::allreduce, CallForm::nonblocking, 4));
  EXPECT_FALSE(meets(CollectiveCall::bcast, CallForm::blocking, 4));
  row.group = kSites;
  EXPECT_FALSE(meets(CollectiveCall::allreduce, CallForm::blocking, 4));
}

LedgerRow& add_site(Ledger& ledger, CodePlace site, CodePlace caller, std::int64_t seconds) {
  LedgerRow& row = add_row(ledger, kBlocking, 2);
  row.group = kSites;
  row.site = site;
  row.caller = caller;
  row.call_ns = seconds * kSecond;
  return row;
}

// Objects have other numbers on other ranks.
TEST(Summary, CallSitesAreThoseOfAllRanks) {
  Ledger first = make_ledger(0);
  set_text(first.header().objects[0], "/bin/solver");
  set_text(first.header().objects[1], "/lib/libfft.so");
  add_row(first, kBlocking, 2).call_ns = kSecond;
  add_site(first, {0x40, 2}, {0x80, 1}, 1);
  add_site(first, {0x40, kMostObjects + 7}, {}, 5);
  Ledger second = make_ledger(1);
  set_text(second.header().objects[0], "/lib/libfft.so");
  set_text(second.header().objects[1], "/bin/solver");
  add_site(second, {0x40, 1}, {0x80, 2}, 3);
  add_site(second, {0x80, 2}, {}, 1).waits = 1;
  Summary summary;
  ASSERT_TRUE(add_ledger(summary, first.bytes(), 4 * kSecond));
  ASSERT_TRUE(add_ledger(summary, second.bytes(), 4 * kSecond));
  EXPECT_EQ(summary.calls.begin()->second.total.calls, 2U);
  EXPECT_DOUBLE_EQ(summary.outside_seconds.sum, 2 + 3);  // 1 s in calls of rank 0
  ASSERT_EQ(summary.sites.size(), 3U);
  const auto sites = nlohmann::json::parse(as_json(summary))["sites"];
  EXPECT_TRUE(sites[0]["place"].is_null());
  EXPECT_EQ(sites[1]["place"]["object"], "/lib/libfft.so");
  EXPECT_EQ(sites[1]["place"]["offset"], 0x40);
  EXPECT_EQ(sites[1]["caller"]["object"], "/bin/solver");
  EXPECT_EQ(sites[1]["calls"], 4);
  EXPECT_EQ(sites[1]["seconds"]["sum"], 4);
  EXPECT_EQ(sites[1]["seconds"]["max_rank"], 1);
  EXPECT_EQ(sites[2]["waits"], true);
  EXPECT_EQ(sites[2]["call"], "MPI_Alltoallv");
}

TEST(Summary, PoliteWaitsAreAdded) {
  Ledger first = make_ledger(0);
  Ledger second = make_ledger(1);
  set_text(first.header().waits.setting, "YIELDS=1");
  first.header().waits.kind = static_cast<std::uint32_t>(WaitKind::own_setting);
  WaitFigures& waits = second.header().waits;
  waits.kind = static_cast<std::uint32_t>(WaitKind::polite);
  waits.add_pause(true, kSecond, 2 * kSecond);
  waits.add_pause(true, kSecond, kSecond);
  waits.add_pause(false, kSecond / 2, kSecond);
  Summary summary;
  ASSERT_TRUE(add_ledger(summary, first.bytes(), kSecond));
  ASSERT_TRUE(add_ledger(summary, second.bytes(), kSecond));
  const auto json = nlohmann::json::parse(as_json(summary))["waits"];
  EXPECT_EQ(json["kind"], "polite");
  EXPECT_EQ(json["setting"], "YIELDS=1");
  EXPECT_EQ(json["naps"], 2);
  EXPECT_EQ(json["slept_seconds"]["sum"], 2.0);
  EXPECT_EQ(json["slept_seconds"]["max_rank"], 1);
  EXPECT_EQ(json["yielded_seconds"]["sum"], 0.5);
  EXPECT_EQ(json["seconds"]["sum"], 4.0);
}

TEST(Summary, WaitsThatCannotBeAreLeftOut) {
  Ledger ledger = make_ledger(0);
  ledger.header().waits.kind = 7;
  ledger.header().waits.slept_ns = -1;
  ledger.header().waits.setting.fill('x');
  Summary summary;
  ASSERT_TRUE(add_ledger(summary, ledger.bytes(), kSecond));
  const auto json = nlohmann::json::parse(as_json(summary))["waits"];
  EXPECT_EQ(json["kind"], "native");
  EXPECT_EQ(json["slept_seconds"]["sum"], 0.0);
}

TEST(Summary, AProcessWithoutSharedMemoryCountsForItself) {
  Result<Ledger> ledger = Ledger::create_private();
  ASSERT_TRUE(ledger.ok()) << ledger.error();
  EXPECT_EQ(ledger.value().fd(), -1);
  ledger.value().header().world_size = 1;
  Summary summary;
  EXPECT_TRUE(add_ledger(summary, ledger.value().bytes(), kSecond));
}

TEST(Summary, PutsRanksTogetherAndNamesWhoIsLeastAndMost) {
  Ledger first = make_ledger(0);
  Ledger second = make_ledger(1);
  LedgerRow& of_first = add_row(first, kBlocking, 3);
  of_first.call_ns = 5 * kSecond;
  of_first.measured = 3;
  of_first.bytes = 30;
  of_first.least_bytes = 5;
  of_first.most_bytes = 20;
  LedgerRow& of_second = add_row(second, kBlocking, 4);
  of_second.call_ns = kSecond;
  of_second.measured = 4;
  of_second.bytes = 40;
  of_second.least_bytes = of_second.most_bytes = 10;
  Summary summary;
  ASSERT_TRUE(add_ledger(summary, first.bytes(), 4 * kSecond));
  ASSERT_TRUE(add_ledger(summary, second.bytes(), 6 * kSecond));
  ASSERT_EQ(summary.calls.size(), 1U);
  const CallFigures& call = summary.calls.begin()->second;
  EXPECT_EQ(call.total.calls, 7U);
  EXPECT_EQ(call.total.bytes, 70U);
  EXPECT_EQ(call.total.least_bytes, 5U);
  EXPECT_EQ(call.total.most_bytes, 20U);
  EXPECT_EQ(call.seconds.least, 1U);
  EXPECT_EQ(call.seconds.most, 0U);
  EXPECT_DOUBLE_EQ(call.seconds.sum, 6.0);
  EXPECT_DOUBLE_EQ(summary.run_seconds.max, 5.0);
  EXPECT_DOUBLE_EQ(summary.outside_seconds.sum, 4.0);  // rank 0 was in calls for longer than its run
  EXPECT_EQ(summary.outside_seconds.least, 0U);
  EXPECT_DOUBLE_EQ(summary.outside_seconds.max, 4.0);
  EXPECT_EQ(nlohmann::json::parse(as_json(summary))["outside_seconds"]["max_rank"], 1);
  EXPECT_EQ(summary.counted, (std::vector<std::uint32_t>{0, 1}));
}

TEST(Summary, TestsAndWhatLiesBeforeWaitsAreThoseOfAllRanks) {
  Summary summary;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    Ledger ledger = make_ledger(rank);
    LedgerRow& row = add_row(ledger, kNonblocking, 5);
    row.tests = 7 + rank;
    row.test_ns = kSecond;
    row.waited = 5;
    row.before_wait_ns = 2 * kSecond;
    ASSERT_TRUE(add_ledger(summary, ledger.bytes(), 4 * kSecond));
  }
  const auto row = nlohmann::json::parse(as_json(summary))["calls"][0];
  EXPECT_EQ(row["tests"], nlohmann::json::parse(R"({"calls": 15, "seconds": 2.0})"));
  EXPECT_EQ(row["before_wait"], nlohmann::json::parse(R"({"operations": 10, "seconds": 4.0})"));
}

TEST(Summary, CollectivesHaveBothFormsButNotWhatNobodyAskedFor) {
  Ledger ledger = make_ledger(0);
  LedgerRow& blocking = add_row(ledger, kBlocking, 10);
  native(blocking, NativeReason::blocking_form) = 7;
  blocking.offloaded = 3;
  blocking.post_ns = kSecond;
  LedgerRow& nonblocking = add_row(ledger, kNonblocking, 5);
  nonblocking.offloaded = 4;
  native(nonblocking, NativeReason::switched_off) = 1;
  nonblocking.post_ns = kSecond;
  nonblocking.late_ns = kSecond / 4;
  LedgerRow& not_asked_for = add_row(ledger, {CollectiveCall::neighbor_alltoall, CallForm::blocking}, 9);
  native(not_asked_for, NativeReason::blocking_form) = 9;
  Summary summary;
  ASSERT_TRUE(add_ledger(summary, ledger.bytes(), 2 * kSecond));
  EXPECT_EQ(summary.calls.size(), 3U);
  ASSERT_EQ(summary.collectives.size(), 1U);
  const CollectiveFigures& collective = summary.collectives.begin()->second;
  EXPECT_EQ(collective.total.calls, 8U);
  EXPECT_EQ(collective.total.offloaded, 7U);
  EXPECT_DOUBLE_EQ(collective.post.max, 2.0);  // of one rank: both forms together
  EXPECT_EQ(nlohmann::json::parse(as_json(summary))["collectives"][0]["late_seconds"]["max"], 0.25);
}

TEST(Summary, CallsAloneInTheirGroupThatNobodyAskedForAreNoCollectives) {
  Ledger ledger = make_ledger(0);
  LedgerRow& row = add_row(ledger, kBlocking, 6);
  native(row, NativeReason::group_of_one) = 6;
  row.alone = 6;
  Summary summary;
  ASSERT_TRUE(add_ledger(summary, ledger.bytes(), 2 * kSecond));
  EXPECT_EQ(summary.calls.size(), 1U);
  EXPECT_TRUE(summary.collectives.empty());
}

TEST(Summary, TimeOfANonblockingCallHasItsWaitsAndThatOfABlockingOneHasThemAlready) {
  Ledger ledger = make_ledger(0);
  for (const CallKind kind : {kBlocking, kNonblocking}) {
    LedgerRow& row = add_row(ledger, kind, 1);
    row.call_ns = 10;
    row.completion_ns = 5;
    row.wait_ns = 2;
  }
  EXPECT_EQ(ledger.row(0).time_ns(), 12);
  EXPECT_EQ(ledger.row(1).time_ns(), 17);
}

TEST(Summary, NonsenseIsLeftOut) {
  Ledger ledger = make_ledger(0);
  add_row(ledger, kBlocking, 1).kind = 1U << 30;
  std::memset(add_row(ledger, kNonblocking, 1).name.data(), 'x', kNameBytes);
  Summary summary;
  ASSERT_TRUE(add_ledger(summary, ledger.bytes(), 2 * kSecond));
  ASSERT_EQ(summary.calls.size(), 1U);
  EXPECT_LT(std::string(summary.calls.begin()->second.total.name.data()).size(), kNameBytes);
  ledger.header().row_count = ~0U;  // a ledger is never read beyond its end
  EXPECT_LE(ledger.bytes().size(), Ledger::kBytes);
  EXPECT_FALSE(add_ledger(summary, ledger.bytes(), 2 * kSecond));
  EXPECT_FALSE(add_ledger(summary, ledger.bytes().first(10), 2 * kSecond));
  Ledger of_no_rank = make_ledger(7);
  EXPECT_FALSE(add_ledger(summary, of_no_rank.bytes(), 2 * kSecond));
}

TEST(Ledger, AnotherProcessMapsTheSame) {
  Ledger ledger = make_ledger(3, 4);
  Result<Ledger> other = Ledger::open(UniqueFd(::dup(ledger.fd())));
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other.value().header().world_rank, 3U);
  ledger.header().magic = 0;
  EXPECT_FALSE(Ledger::open(UniqueFd(::dup(ledger.fd()))).ok());
  EXPECT_FALSE(Ledger::open(UniqueFd(::dup(0))).ok());
}

TEST(Json, SaysWhoIsCountedAndHowItEnded) {
  Summary summary;
  summary.world_size = 9;
  for (const std::uint32_t rank : {0U, 1U, 2U, 5U, 7U, 8U}) summary.counted.push_back(rank);
  summary.ended = {.how = "aborted", .code = 3, .signal = std::nullopt, .rank = 5, .text = "a \"word\""};
  ServiceOfNode service{.node = 1, .figures = {}};
  service.figures.core_taken_ppm = 630'000;
  service.figures.other_job = 4711;
  service.figures.restarts = 2;
  set_text(service.figures.warning, "too many have died");
  summary.services.push_back(service);
  const auto report = nlohmann::json::parse(as_json(summary));
  EXPECT_EQ(report["counted_ranks"], nlohmann::json::parse("[[0, 2], [5, 5], [7, 8]]"));
  EXPECT_EQ(report["ended"],
            nlohmann::json::parse(R"({"how": "aborted", "code": 3, "signal": null, "rank": 5, "text": "a \"word\""})"));
  const auto& first = report["services"][0];
  EXPECT_EQ(first["core_taken"], 0.63);
  EXPECT_EQ(first["other_job"], 4711);
  EXPECT_EQ(first["restarts"], 2);
  EXPECT_EQ(first["warning"], "too many have died");
}

TEST(Json, NamesTheProgram) {
  Ledger ledger = make_ledger(0);
  Summary summary;
  ASSERT_TRUE(add_ledger(summary, ledger.bytes(), kSecond));
  EXPECT_EQ(nlohmann::json::parse(as_json(summary))["program"], "solver");
}

TEST(Json, NamesThatAreNotUtf8AreReplaced) {
  Summary summary;
  summary.ended.text = "Fl\xfcsse\n";
  EXPECT_EQ(nlohmann::json::parse(as_json(summary))["ended"]["text"], "Fl\xef\xbf\xbdsse\n");
}

TEST(Calls, AreNamedAsMpiNamesThem) {
  EXPECT_EQ(name_of(kBlocking), "MPI_Alltoallv");
  EXPECT_EQ(name_of(kNonblocking), "MPI_Ialltoallv");
  EXPECT_EQ(name_of(CallKind{CollectiveCall::barrier, CallForm::persistent}), "MPI_Barrier_init");
  for (std::size_t i = 0; i < kCallKinds; ++i) EXPECT_EQ(index_of(call_kind_at(i)), i);
}

}  // namespace
}  // namespace outrigger::report
