// Wakes a sleeping service process, by an eventfd or by a message to a DPU.
#pragma once

#include <atomic>
#include <utility>

#include "base/unique_fd.hpp"
#include "client/endpoint_lock.hpp"
#include "client/network/rank_network.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::client {

class Doorbell {
 public:
  // `network`: of a DPU, or nullptr; it must exist until the endpoint is inert.
  Doorbell(UniqueFd event, SegmentHeader& header, RankNetwork* network)
      : event_(std::move(event)), header_(header), network_(network) {}

  // Under the lock, after a post. The service process announces its sleep and then reads the tails; this side writes a
  // tail and then reads the announcement. All four are sequentially consistent, so at least one side sees the other.
  void posted() {
    if (service_sleeps()) due_ = true;
  }
  // Unlocks, then rings if the service process slept when something was posted.
  void unlock_and_ring(Lock& lock) {
    const bool due = std::exchange(due_, false);
    const bool rings_here = network_ == nullptr;
    if (due && !rings_here) network_->ring(header_.dpu_process.load(std::memory_order_seq_cst));
    lock.unlock();
    if (due && rings_here) ring();
  }
  // Under the lock. From now on the service process is on this node. It is rung once, even if it was rung before.
  void leave_dpu(UniqueFd event) {
    event_ = std::move(event);
    network_ = nullptr;
    due_ = true;
  }
  // Any thread. Not for a service process on a DPU.
  void ring() const;
  [[nodiscard]] bool service_sleeps() const { return header_.service_sleeping.load(std::memory_order_seq_cst) != 0; }
  // True for an eventfd.
  [[nodiscard]] bool rings_here() const { return network_ == nullptr; }
  void close() { event_.reset(); }

 private:
  UniqueFd event_;
  SegmentHeader& header_;
  RankNetwork* network_;
  bool due_ = false;
};

}  // namespace outrigger::client
