#include "client/network/call_listener.hpp"

#include <unistd.h>

#include <chrono>
#include <utility>
#include <vector>

#include "base/futex.hpp"
#include "client/quiet_thread.hpp"

namespace outrigger::client {
namespace {

constexpr unsigned kBetweenLooksUs = 50;
// The keeper sends the message and then wakes this thread.
constexpr std::chrono::seconds kUntilToldToLeave{30};

}  // namespace

void CallListener::start(RankNetwork& network) {
  network_ = &network;
  started_ = start_quiet_thread(thread_, 0, &CallListener::main, this);
}

void CallListener::stop() {
  if (!started_) return;
  started_ = false;
  stop_.store(true, std::memory_order_seq_cst);
  header_.dpu_calls.fetch_or(kDpuCallsNoMore, std::memory_order_seq_cst);
  futex_wake_all(header_.dpu_calls);
  ::pthread_join(thread_, nullptr);
}

void* CallListener::main(void* self) {
  ::pthread_setname_np(::pthread_self(), "outrigger-dpu");
  static_cast<CallListener*>(self)->listen();
  return nullptr;
}

// Under the lock no operation is being posted: earlier ones name registered memory, later ones private memory. The
// service processes read nothing before they are notified of this.
void CallListener::leave_dpu() {
  Result<UniqueFd> doorbell = control_.leave_dpu(kUntilToldToLeave);
  if (!doorbell) return;  // the keeper is gone, and so is the job
  std::vector<Region> mapped;
  {
    Lock lock(lock_.mutex);
    if (lock_.is_inert()) return;
    mapped = regions_.leave_dpu();
    network_->shut(header_);
    doorbell_.leave_dpu(std::move(doorbell).value());
    doorbell_.unlock_and_ring(lock);
  }
  control_.has_left_dpu(mapped);
}

void CallListener::listen() {
  while (true) {
    const std::uint32_t calls = header_.dpu_calls.load(std::memory_order_seq_cst);
    if (stop_.load(std::memory_order_seq_cst)) return;
    if ((calls & kDpuLost) != 0) return leave_dpu();
    if ((calls & kDpuCalls) == 0) {
      futex_wait_forever(header_.dpu_calls, calls);
      continue;
    }
    {
      const Lock lock(lock_.mutex);
      if (!lock_.is_inert()) network_->progress();
    }
    ::usleep(kBetweenLooksUs);
  }
}

}  // namespace outrigger::client
