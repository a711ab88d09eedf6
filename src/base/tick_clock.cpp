#include "base/tick_clock.hpp"

#include <algorithm>
#include <ctime>
#include <fstream>
#include <string>

#include "base/clock.hpp"

namespace outrigger {
namespace {

constexpr std::int64_t kRenewAfterNs = 1'000'000;
constexpr std::uint64_t kMostApart = 2'000;  // ticks between two reads of the counter; more: the thread was interrupted

#if defined(__x86_64__)
std::uint64_t ticks_now() {
  return __rdtsc();
}

// The kernel has found that the counter runs at a constant rate, equal on all cores.
bool kernel_trusts_ticks() {
  static const bool trusts = [] {
    std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    std::string name;
    return static_cast<bool>(file >> name) && name == "tsc";
  }();
  return trusts;
}
#else
std::uint64_t ticks_now() {
  return 0;
}
bool kernel_trusts_ticks() {
  return false;
}
#endif

}  // namespace

[[gnu::tls_model("initial-exec")]] constinit thread_local TickClock::Anchor TickClock::anchor_;

std::int64_t TickClock::ask() {
  const std::uint64_t before = ticks_now();
  std::int64_t ns = time_on(CLOCK_MONOTONIC).count();
  const bool at_once = ticks_now() - before < kMostApart;
  // Times from the counter may be slightly ahead; never go back.
  ns = std::max(ns, anchor_.good_for == 0 ? anchor_.ns : anchor_.ns + kRenewAfterNs);
  if (kernel_trusts_ticks() && at_once) renew(before, ns);
  return ns;
}

void TickClock::renew(std::uint64_t ticks, std::int64_t ns) {
  const std::int64_t passed_ns = ns - anchor_.ns;
  if (passed_ns < kRenewAfterNs) return;  // too short to measure the counter's rate
  if (anchor_.ns != 0) {
    const double per_tick = static_cast<double>(passed_ns) / static_cast<double>(ticks - anchor_.ticks);
    anchor_.scale = static_cast<std::uint64_t>(per_tick * static_cast<double>(std::uint64_t{1} << kScaleBits));
    anchor_.good_for = static_cast<std::uint64_t>(static_cast<double>(kRenewAfterNs) / per_tick);
  }
  anchor_.ticks = ticks;
  anchor_.ns = ns;
}

}  // namespace outrigger
