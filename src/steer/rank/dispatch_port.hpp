// How a rank reaches the dispatch plan of one communicator (steer/plan/dispatch_plan.hpp) and the service processes
// that change it. The client implements it.
//
// Thread rule: any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "protocol/shared/segment.hpp"
#include "steer/plan/dispatch_plan.hpp"

namespace outrigger::steer {

// A message to the service process of the rank, without an answer. SlotRequest says which fields each kind has.
struct Notice {
  SlotRequest kind = SlotRequest::join_plan;
  std::uint16_t collective = 0;
  std::uint16_t algorithm = 0;
  std::uint16_t trial = 0;    // its number
  std::uint32_t request = 0;  // TrialRequest::encode()
};

class DispatchPort {
 public:
  // `inert`: the entry must not be touched any more. `entry`: nullptr if the communicator has no plan on this rank.
  DispatchPort(const std::atomic<bool>& inert, PlanEntry* entry) : inert_(inert), entry_(entry) {}
  DispatchPort(const DispatchPort&) = delete;
  DispatchPort& operator=(const DispatchPort&) = delete;

  [[nodiscard]] const std::atomic<bool>& inert() const { return inert_; }
  [[nodiscard]] bool is_inert() const { return inert_.load(std::memory_order_acquire); }
  [[nodiscard]] PlanEntry* entry() const { return entry_; }
  virtual void send(const Notice& notice) const noexcept = 0;
  // Service processes change no plan any more.
  [[nodiscard]] virtual bool job_ended() const noexcept = 0;

 protected:
  ~DispatchPort() = default;

 private:
  const std::atomic<bool>& inert_;
  PlanEntry* entry_;
};

}  // namespace outrigger::steer
