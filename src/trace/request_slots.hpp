// Maps request handles of traced collectives to their operations. A fixed number of places, taken and freed without a
// lock, since programs have few active requests. Callers keep a request elsewhere if there is no place.
//
// The MPI may reuse a handle in another thread after its request has completed and before the entry is removed here:
// the entry's number tells the two apart.
//
// Thread rule: any thread. MPI does not let two threads complete one request.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "protocol/ids.hpp"
#include "trace/event.hpp"

namespace outrigger::trace {

struct RequestNote {
  std::uint64_t number = 0;  // counted by the rank from 1; never reused
  GroupId group;
  std::uint64_t sequence = kNoSequence;
};

class RequestSlots {
 public:
  static constexpr std::size_t kSlots = 64;
  static constexpr std::size_t kTried = 4;  // consecutive places per key

  // Replaces an entry of the same key. False: there is no place.
  [[nodiscard]] bool add(std::uint64_t key, const RequestNote& note) {
    Slot* const slot = take(key);
    if (slot == nullptr) return false;
    slot->key.store(key, std::memory_order_relaxed);
    slot->group = note.group;
    slot->sequence = note.sequence;
    slot->number.store(note.number, std::memory_order_release);
    return true;
  }
  [[nodiscard]] std::optional<RequestNote> find(std::uint64_t key) const {
    for (std::size_t i = 0; i < kTried; ++i) {
      const Slot& slot = slots_[place(key, i)];
      const std::uint64_t number = slot.number.load(std::memory_order_acquire);
      if (is_used(number) && slot.key.load(std::memory_order_relaxed) == key) {
        return RequestNote{number, slot.group, slot.sequence};
      }
    }
    return std::nullopt;
  }
  // False: there is no such entry.
  bool remove(std::uint64_t key, std::uint64_t number) {
    for (std::size_t i = 0; i < kTried; ++i) {
      std::uint64_t found = number;
      Slot& slot = slots_[place(key, i)];
      if (slot.number.load(std::memory_order_relaxed) != number) continue;
      return slot.number.compare_exchange_strong(found, kFree, std::memory_order_acq_rel);
    }
    return false;
  }

 private:
  static constexpr std::uint64_t kFree = 0;
  static constexpr std::uint64_t kBeingTaken = ~std::uint64_t{0};

  struct alignas(64) Slot {
    std::atomic<std::uint64_t> number = kFree;
    std::atomic<std::uint64_t> key = 0;
    GroupId group;
    std::uint64_t sequence = 0;
  };

  [[nodiscard]] static bool is_used(std::uint64_t number) { return number != kFree && number != kBeingTaken; }
  [[nodiscard]] static std::size_t place(std::uint64_t key, std::size_t i) {
    static_assert(kSlots == 64);
    return ((key * 0x9E3779B97F4A7C15ULL >> 58U) + i) % kSlots;
  }

  // The place of the same key, otherwise the first free one.
  [[nodiscard]] Slot* take(std::uint64_t key) {
    Slot* free = nullptr;
    for (std::size_t i = 0; i < kTried; ++i) {
      Slot& slot = slots_[place(key, i)];
      const std::uint64_t number = slot.number.load(std::memory_order_acquire);
      if (number == kFree) {
        if (free == nullptr) free = &slot;
      } else if (is_used(number) && slot.key.load(std::memory_order_relaxed) == key && take(slot, number)) {
        return &slot;
      }
    }
    return free != nullptr && take(*free, kFree) ? free : nullptr;
  }
  [[nodiscard]] static bool take(Slot& slot, std::uint64_t number) {
    return slot.number.compare_exchange_strong(number, kBeingTaken, std::memory_order_acq_rel);
  }

  std::array<Slot, kSlots> slots_{};
};

}  // namespace outrigger::trace
