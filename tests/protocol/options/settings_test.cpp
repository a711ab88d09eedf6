// Settings in the environment: reaches, names of variables, the log.
#include "protocol/options/settings.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "protocol/options/reach.hpp"

namespace outrigger {
namespace {

ReachSetting reach_of(std::string_view text) {
  ReachSetting setting;
  EXPECT_EQ(read_reach(text, setting), std::nullopt) << text;
  return setting;
}

TEST(Reach, WordsAllowOnlyWhatTheyName) {
  EXPECT_EQ(reach_of(""), ReachSetting{});
  EXPECT_EQ(reach_of("mapped,cma,bounce").reach, kReachMapped | kReachCma);
  EXPECT_EQ(reach_of("bounce").reach, 0U);
  EXPECT_EQ(reach_of("rdma").reach, kReachRdma);
  EXPECT_EQ(reach_of("alias").reach, kReachRdma | kReachAlias) << "of no use without rdma";
  EXPECT_EQ(reach_of("mapped,alias,-rdma").reach, kReachMapped);
  EXPECT_EQ(reach_of("mapped,xpmem,cma,copier,rdma,alias,bounce").reach, kReachAll);
}

TEST(Reach, AMinusTakesAway) {
  EXPECT_EQ(reach_of("-rdma").reach, kReachAll & ~(kReachRdma | kReachAlias));
  EXPECT_EQ(reach_of("-alias").reach, kReachAll & ~kReachAlias);
  EXPECT_EQ(reach_of("-cma,-copier").reach, kReachAll & ~(kReachCma | kReachCopier));
  EXPECT_EQ(reach_of("mapped,cma,-cma").reach, kReachMapped);
  EXPECT_EQ(reach_of("-cma,mapped").reach, kReachMapped);
}

TEST(Reach, OtherWordsAreRefused) {
  for (const std::string_view word :
       {"telepathy", "relay", "wire", "own", "-bounce", "--cma", "", "heap", "-huge_pages", "cma "}) {
    ReachSetting setting;
    const std::string text = "mapped," + std::string(word) + ",cma";
    EXPECT_EQ(read_reach(text, setting), word);
  }
}

TEST(Reach, ARefusedWordComesWithItsRemedy) {
  EXPECT_EQ(reach_remedy("heap"), "set OUTRIGGER_SHARED_HEAP=on");
  EXPECT_EQ(reach_remedy("-wait_copies"), "set OUTRIGGER_WAIT_COPIES=off");
  EXPECT_EQ(reach_remedy("-huge_pages"), "set OUTRIGGER_HUGE_PAGES=off");
  EXPECT_EQ(reach_remedy("telepathy"),
            "use mapped, xpmem, cma, copier, rdma, alias, bounce, separated by commas, or with - in front");
}

TEST(Settings, ASwitchIsOnOrOff) {
  EXPECT_EQ(parse_switch("on"), true);
  EXPECT_EQ(parse_switch("off"), false);
  EXPECT_EQ(parse_switch("1"), std::nullopt);
  EXPECT_EQ(parse_switch(""), std::nullopt);
}

TEST(Reach, ListsForOtherProcessesSayTheSame) {
  for (std::uint32_t reach = 0; reach <= kReachAll; ++reach) {
    if ((reach & kReachAlias) != 0 && (reach & kReachRdma) == 0) continue;  // no setting has this value
    EXPECT_EQ(parse_reach_list(reach_list(reach)).value(), reach);
  }
  EXPECT_NE(parse_reach_list("telepathy").error().find("mapped, xpmem, cma, "), std::string::npos);
}

TEST(Reach, EveryWayThatIsCountedHasOneName) {
  std::set<std::string_view> names;
  for (std::uint32_t reach = 0; reach < kReachCount; ++reach) names.insert(name_of(static_cast<Reach>(reach)));
  EXPECT_EQ(names.size(), kReachCount);
  EXPECT_FALSE(names.contains("unknown"));
}

TEST(Settings, UnknownNamesAreSaid) {
  const std::array<const char*, 6> good{"PATH=/bin",         "OUTRIGGER_REACH=cma", "OUTRIGGER_TEST_X=1",
                                        "OUTRIGGER_BUILD=b", "OUTRIGGER_JOBS=2",    nullptr};
  EXPECT_EQ(unknown_name(good.data()), "");
  const std::array<const char*, 2> bad{"OUTRIGGER_RAECH=cma", nullptr};
  EXPECT_TRUE(unknown_name(bad.data())
                  .starts_with("OUTRIGGER_RAECH is unknown and has no effect; there are OUTRIGGER_ENABLE, "));
}

TEST(Settings, TheLogIsALevelAndAFile) {
  EXPECT_EQ(parse_log("").level, "off");
  EXPECT_FALSE(parse_log("warn").speaks());
  EXPECT_TRUE(parse_log("info").speaks());
  EXPECT_EQ(parse_log("debug:/tmp/a:b").level, "debug");
  EXPECT_EQ(parse_log("debug:/tmp/a:b").file, "/tmp/a:b");
  EXPECT_FALSE(is_log_level("1"));
}

TEST(Settings, TheTableSaysTheDefaultLimitOfTheStart) {
  const auto* row = std::find_if(kSettings.begin(), kSettings.end(), [](const SettingRow& each) {
    return each.name == std::string_view(setting::kInitTimeout);
  });
  ASSERT_NE(row, kSettings.end());
  EXPECT_TRUE(row->initial.starts_with(std::to_string(setting::kInitTimeoutMs) + ";")) << row->initial;
}

}  // namespace
}  // namespace outrigger
