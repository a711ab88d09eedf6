#include "service/loop/faults.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "protocol/settings.hpp"

namespace outrigger::service {
namespace {

void loop_for_ever(int /*signal*/) {
  static std::atomic<unsigned> turns{0};
  while (true) turns.fetch_add(1, std::memory_order_relaxed);
}

void block_for_ever(int /*signal*/) {
  while (true) ::pause();
}

}  // namespace

void arrange_faults() {
  const char* text = std::getenv(setting::kFaults);
  if (text == nullptr || std::string_view(text) != "hang") return;
  (void)::signal(SIGUSR1, loop_for_ever);
  (void)::signal(SIGUSR2, block_for_ever);
}

}  // namespace outrigger::service
