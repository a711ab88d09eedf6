// Calls on communicators that this rank leaves to its MPI for their counts (protocol/native_calls.hpp).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

#include "client/endpoint_lock.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::client {

// Which entries of the segment are free.
//
// Thread rule: any thread, without the lock.
class NativeTallies {
 public:
  NativeTallies(EndpointLock& lock, SegmentView segment) : lock_(lock), segment_(segment) {}

  // nullptr: none is free.
  [[nodiscard]] NativeCallsEntry* take(const GroupId& group, NativeCalls calls) {
    const Lock lock(lock_.mutex);
    if (lock_.is_inert() || (free_count_ == 0 && used_ == kNativeCallsEntries)) return nullptr;
    NativeCallsEntry* entry = free_count_ == 0 ? &segment_.native_calls(used_++) : free_[--free_count_];
    entry->begin(group, calls);
    return entry;
  }
  void give_back(NativeCallsEntry& entry) {
    const Lock lock(lock_.mutex);
    if (lock_.is_inert()) return;
    entry.end();
    free_[free_count_++] = &entry;
  }
  [[nodiscard]] bool is_inert() const { return lock_.is_inert(); }

 private:
  EndpointLock& lock_;
  SegmentView segment_;
  std::uint32_t used_ = 0;  // entries below have been used
  std::uint32_t free_count_ = 0;
  std::array<NativeCallsEntry*, kNativeCallsEntries> free_{};  // of these
};

// The calls of one communicator.
//
// Thread rule: one thread at a time, as MPI has it for the calls of a communicator.
class NativeTally {
 public:
  NativeTally() = default;
  // Must outlive this. `operations`: that have been posted.
  NativeTally(NativeTallies& tallies, const GroupId& group, std::uint64_t operations)
      : tallies_(&tallies), entry_(tallies.take(group, NativeCalls::after(operations))) {}
  NativeTally(NativeTally&& other) noexcept
      : tallies_(std::exchange(other.tallies_, nullptr)), entry_(std::exchange(other.entry_, nullptr)) {}
  NativeTally& operator=(NativeTally&& other) noexcept {
    std::swap(tallies_, other.tallies_);
    std::swap(entry_, other.entry_);
    return *this;
  }
  ~NativeTally() {
    if (entry_ != nullptr) tallies_->give_back(*entry_);
  }

  [[nodiscard]] bool has_begun() const { return tallies_ != nullptr; }
  void count() {
    if (entry_ == nullptr || tallies_->is_inert()) return;
    entry_->word.store(calls().one_more().word(), std::memory_order_release);
  }
  // The operation is about to be posted. How many calls have been native since the one before it.
  [[nodiscard]] std::uint32_t post(std::uint64_t sequence) {
    if (!has_begun()) return 0;
    if (entry_ == nullptr || tallies_->is_inert()) return kUncountedNativeCalls;
    const std::uint32_t count = calls().count();
    entry_->word.store(NativeCalls::after(sequence + 1).word(), std::memory_order_release);
    return count;
  }

 private:
  [[nodiscard]] NativeCalls calls() const { return NativeCalls(entry_->word.load(std::memory_order_relaxed)); }

  NativeTallies* tallies_ = nullptr;   // null: no call has been native
  NativeCallsEntry* entry_ = nullptr;  // null: nothing is counted
};

}  // namespace outrigger::client
