// Waiting for what another thread or process does.
#pragma once

#include <chrono>
#include <thread>

namespace outrigger {

// Waits until `condition()` holds; false on timeout.
template <class Condition>
[[nodiscard]] bool eventually(Condition condition, std::chrono::milliseconds at_most = std::chrono::seconds(60)) {
  const auto deadline = std::chrono::steady_clock::now() + at_most;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace outrigger
