// Counters by name: what programs and tools read of a rank's ledger.
#include "report/counters.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace outrigger::report {
namespace {

std::uint64_t value(const std::string& name, const LedgerRow& row) {
  const std::optional<std::size_t> found = find_counter(name);
  EXPECT_TRUE(found) << name;
  return found ? counters()[*found].value(row) : 0;
}

LedgerRow row_of(CallForm form) {
  LedgerRow row;
  row.kind = static_cast<std::uint32_t>(index_of(CallKind{CollectiveCall::alltoall, form}));
  row.calls = 7;
  row.offloaded = 4;
  row.native[static_cast<std::size_t>(NativeReason::small_blocks)] = 2;
  row.native[static_cast<std::size_t>(NativeReason::native_job)] = 1;
  row.bytes = 1000;
  row.reached[kOwnBytes] = 30;
  row.call_ns = 100;
  row.completion_ns = 20;
  row.wait_ns = 3;
  row.late = 5;
  row.hidden_ns = 11;
  row.late_ns = 13;
  return row;
}

TEST(Counters, EachHasItsNameAndIsFoundByIt) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < counters().size(); ++i) {
    const Counter& counter = counters()[i];
    EXPECT_EQ(find_counter(counter.name), i);
    EXPECT_EQ(counter.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string::npos) << counter.name;
    EXPECT_TRUE(counter.name.starts_with("outrigger_")) << counter.name;
    EXPECT_FALSE(counter.description.empty());
    names.insert(counter.name);
  }
  EXPECT_EQ(names.size(), counters().size());
  EXPECT_FALSE(find_counter("outrigger_native_none"));
  EXPECT_FALSE(find_counter(""));
}

TEST(Counters, ReadWhatTheRowHas) {
  const LedgerRow row = row_of(CallForm::nonblocking);
  EXPECT_EQ(value("outrigger_calls", row), 7U);
  EXPECT_EQ(value("outrigger_offloaded", row), 4U);
  EXPECT_EQ(value("outrigger_native", row), 3U);
  EXPECT_EQ(value("outrigger_native_small_blocks", row), 2U);
  EXPECT_EQ(value("outrigger_native_native_job", row), 1U);
  EXPECT_EQ(value("outrigger_native_rounding", row), 0U);
  EXPECT_EQ(value("outrigger_bytes", row), 1000U);
  EXPECT_EQ(value("outrigger_bytes_own", row), 30U);
  EXPECT_EQ(value("outrigger_late_arrivals", row), 5U);
  EXPECT_EQ(value("outrigger_hidden_time", row), 11U);
  EXPECT_EQ(value("outrigger_late_time", row), 13U);
  EXPECT_EQ(value("outrigger_exposed_time", row), 123U);
  EXPECT_EQ(value("outrigger_exposed_time", row_of(CallForm::blocking)), 103U);
}

TEST(Counters, TimesAreNeverNegative) {
  LedgerRow row = row_of(CallForm::blocking);
  row.call_ns = -500;
  EXPECT_EQ(value("outrigger_exposed_time", row), 0U);
}

}  // namespace
}  // namespace outrigger::report
