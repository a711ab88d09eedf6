// Calls of one kind on one communicator that are native, one after the other, as long as its course stays what it is:
// each is counted (protocol/course.hpp), and nothing else is asked.
//
// Thread rule: one thread at a time, as MPI has it for the calls of a communicator.
#pragma once

#include <atomic>
#include <cstdint>

#include "client/endpoint_lock.hpp"
#include "protocol/course.hpp"

namespace outrigger::client {

class NativeSpell {
 public:
  NativeSpell() = default;
  // `most` calls, beside a course that has changed so often. Both references must outlive this.
  NativeSpell(const EndpointLock& lock, CourseEntry& entry, std::uint32_t changes, std::uint64_t most)
      : lock_(&lock), entry_(&entry), changes_(changes), left_(most) {}

  struct Call {
    bool native = false;
    bool counted = false;  // native or not: it has been
  };
  // The next one. Not native: the spell is over, and the course has to be asked.
  [[nodiscard]] Call next() {
    if (left_ == 0 || lock_->is_inert()) return {};
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
  const EndpointLock* lock_ = nullptr;
  CourseEntry* entry_ = nullptr;
  std::uint32_t changes_ = 0;
  std::uint64_t left_ = 0;
  std::uint64_t calls_ = 0;
};

}  // namespace outrigger::client
