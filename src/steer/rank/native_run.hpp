// A cached answer: calls of one kind on one communicator that are native as long as its dispatch plan stays unchanged.
// Each is counted (steer/plan/dispatch_plan.hpp), and nothing else is asked.
//
// Thread rule: one thread at a time, as MPI has it for the calls of a communicator.
#pragma once

#include <atomic>
#include <cstdint>

#include "steer/plan/dispatch_plan.hpp"

namespace outrigger::steer {

class NativeRun {
 public:
  NativeRun() = default;
  // `most` calls, while the plan has changed so often. `inert`: the entry must not be touched any more. Both references
  // must outlive this.
  NativeRun(const std::atomic<bool>& inert, PlanEntry& entry, std::uint32_t changes, std::uint64_t most)
      : inert_(&inert), entry_(&entry), changes_(changes), left_(most) {}

  struct Call {
    bool native = false;
    bool counted = false;  // native or not: it has been
  };
  // The next one. Not native: the run is over, and the plan has to be asked.
  [[nodiscard]] Call next() {
    if (left_ == 0 || inert_->load(std::memory_order_acquire)) return {};
    const std::uint64_t call = entry_->calls.load(std::memory_order_relaxed);
    entry_->calls.store(call + 1, std::memory_order_seq_cst);
    const bool native = entry_->held.load(std::memory_order_seq_cst) == 0 &&
                        entry_->changes.load(std::memory_order_acquire) == changes_;
    left_ = native ? left_ - 1 : 0;
    if (native) ++calls_;
    return {native, true};
  }
  // That have been native.
  [[nodiscard]] std::uint64_t calls() const { return calls_; }

 private:
  const std::atomic<bool>* inert_ = nullptr;
  PlanEntry* entry_ = nullptr;
  std::uint32_t changes_ = 0;
  std::uint64_t left_ = 0;
  std::uint64_t calls_ = 0;
};

}  // namespace outrigger::steer
