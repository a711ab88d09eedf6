#include "service/loop/faults.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "protocol/options/settings.hpp"

namespace outrigger::service {
namespace {

struct Crash {
  std::string_view collective;
  std::uint32_t times = 0;
};
constinit std::optional<Crash> crash;

void loop_for_ever(int /*signal*/) {
  static std::atomic<unsigned> turns{0};
  while (true) turns.fetch_add(1, std::memory_order_relaxed);
}

void block_for_ever(int /*signal*/) {
  while (true) ::pause();
}

std::optional<Crash> parse_crash(std::string_view text) {
  constexpr std::string_view kCrash = "crash:";
  const std::size_t colon = text.rfind(':');
  if (!text.starts_with(kCrash) || colon < kCrash.size()) return std::nullopt;
  Crash parsed{text.substr(kCrash.size(), colon - kCrash.size())};
  const std::string_view times = text.substr(colon + 1);
  (void)std::from_chars(times.data(), times.data() + times.size(), parsed.times);
  return parsed;
}

}  // namespace

void arrange_faults() {
  const char* text = std::getenv(setting::kFaults);
  if (text == nullptr) return;
  crash = parse_crash(text);
  if (std::string_view(text) != "hang") return;
  (void)::signal(SIGUSR1, loop_for_ever);
  (void)::signal(SIGUSR2, block_for_ever);
}

void arrange_faults_of(std::uint32_t epoch) {
  if (crash && epoch > crash->times) crash.reset();
}

void fail_at(Collective collective) {
  if (!crash || name_of(collective) != crash->collective) return;
  (void)::signal(SIGSEGV, SIG_DFL);
  (void)::raise(SIGSEGV);
}

}  // namespace outrigger::service
