#include "mpi/report/known_sites.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace outrigger::mpi {
namespace {

using report::LedgerRow;

constexpr int kCaller = 0;

// A part of the test's stack. Its return addresses are those of a library and of the library's caller.
struct Stack {
  std::array<std::uintptr_t, 2> addresses{};

  KnownSites::Call called_by(std::uintptr_t inner, std::uintptr_t outer, std::size_t kind = 1, bool waits = false) {
    addresses = {inner, outer};
    return {{&kCaller, this}, kind, waits};
  }
  [[nodiscard]] CallWay way() const {
    CallWay found;
    for (const std::uintptr_t& address : addresses) found.slots[found.slot_count++] = {&address, address};
    return found;
  }
};

void keep(KnownSites& sites, Stack& stack, std::uintptr_t inner, LedgerRow& row) {
  const KnownSites::Call call = stack.called_by(inner, 2);
  sites.keep(call, stack.way(), &row);
}

TEST(KnownSites, CallComesByAKnownWayOrNot) {
  const auto sites = std::make_unique<KnownSites>();
  LedgerRow row;
  Stack stack;
  EXPECT_EQ(sites->find(stack.called_by(1, 2)), nullptr);
  keep(*sites, stack, 1, row);
  EXPECT_EQ(sites->find(stack.called_by(1, 2)), &row);
  EXPECT_EQ(sites->find(stack.called_by(1, 3)), nullptr);
  EXPECT_EQ(sites->find(stack.called_by(1, 2, 4)), nullptr);
  EXPECT_EQ(sites->find(stack.called_by(1, 2, 1, true)), nullptr);
  Stack deeper;
  EXPECT_EQ(sites->find(deeper.called_by(1, 2)), nullptr);
}

TEST(KnownSites, CallerInTheProgramHasNoWay) {
  const auto sites = std::make_unique<KnownSites>();
  LedgerRow row;
  Stack stack;
  Stack deeper;
  sites->keep(stack.called_by(1, 2), {}, &row);
  EXPECT_EQ(sites->find(deeper.called_by(3, 4)), &row);
}

TEST(KnownSites, WaysOfOneDepthAreKnownTogether) {
  const auto sites = std::make_unique<KnownSites>();
  std::array<LedgerRow, 4> rows;
  Stack stack;
  for (std::size_t i = 0; i < rows.size(); ++i) keep(*sites, stack, i, rows[i]);
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(sites->find(stack.called_by(i, 2)), &rows[i]);
}

TEST(KnownSites, NewWayReplacesAnother) {
  const auto sites = std::make_unique<KnownSites>();
  std::array<LedgerRow, 40> rows;
  Stack stack;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    keep(*sites, stack, i, rows[i]);
    EXPECT_EQ(sites->find(stack.called_by(i, 2)), &rows[i]);
  }
}

}  // namespace
}  // namespace outrigger::mpi
