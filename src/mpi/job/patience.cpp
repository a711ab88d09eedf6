#include "mpi/job/patience.hpp"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace outrigger::mpi {
namespace {

constexpr std::chrono::microseconds kYieldFor{500};
// After a long wait a short delay does not matter.
constexpr std::chrono::microseconds kShortestNap{100};
constexpr std::chrono::microseconds kLongestNap{1000};
constexpr int kPart = 16;

}  // namespace

void Patience::turn() {
  const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - began_);
  if (waited < kYieldFor) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(std::clamp(waited / kPart, kShortestNap, kLongestNap));
  }
}

}  // namespace outrigger::mpi
