// Cache of memory ranges that are registered for RDMA: a registration costs as much as moving hundreds of kilobytes.
//
//   use(range)    a registration that holds the whole range, with one more user; its entry of the key table has all
//                 that a service process needs
//   release(id)   one user less
//
// A range that the program frees is dropped once it has no users, and never found again: later memory at the address is
// different. Entries are reused only when they have no users.
//
// Thread rule: the owner locks, except for the notes of freed memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "client/memory/unmapped_ranges.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::client {

// Registers memory: UCX, or a test's.
class Registrar {
 public:
  Registrar() = default;
  Registrar(const Registrar&) = delete;
  Registrar& operator=(const Registrar&) = delete;
  virtual ~Registrar() = default;
  // Fills key, key_bytes and export_bytes of the entry. nullptr on failure.
  [[nodiscard]] virtual void* add(std::uint64_t base, std::uint64_t bytes, KeyEntry& entry) = 0;
  virtual void remove(void* registration) = 0;
};

class RegistrationCache {
 public:
  // `segment`: has the key table. `notes`: freed memory; nullptr: unknown, so nothing is cached.
  RegistrationCache(Registrar& registrar, SegmentView segment, UnmappedRanges* notes);
  ~RegistrationCache();
  RegistrationCache(const RegistrationCache&) = delete;
  RegistrationCache& operator=(const RegistrationCache&) = delete;

  // nullopt: it cannot be registered, or all entries are in use.
  [[nodiscard]] std::optional<RegionId> use(std::uint64_t address, std::uint64_t bytes);
  void release(RegionId region);
  // This library itself unmaps the range, possibly without a note.
  void forget(std::uint64_t address, std::uint64_t bytes);
  // Drops all, even with users.
  void drop_all();
  // In a forked child: nothing here belongs to it.
  void abandon() {
    ranges_.clear();
    places_.clear();
  }

  // For tests.
  [[nodiscard]] std::size_t registered() const { return registered_; }
  [[nodiscard]] std::uint64_t hits() const { return hits_; }

 private:
  struct Place {
    std::uint64_t base = 0;
    std::uint64_t bytes = 0;
    void* registration = nullptr;  // nullptr: free
    std::uint32_t generation = 0;
    std::uint32_t users = 0;
    bool stale = false;  // the program has freed the memory
    std::uint64_t last_use = 0;
  };
  void drain();
  void give_back(std::uint64_t begin, std::uint64_t end);
  [[nodiscard]] std::optional<std::uint32_t> find(std::uint64_t begin, std::uint64_t end) const;
  // A free entry, or one without users, which is dropped.
  [[nodiscard]] std::optional<std::uint32_t> free_place();
  void drop(std::uint32_t index);
  bool drop_oldest_idle();
  [[nodiscard]] RegionId id_of(std::uint32_t index) const { return keyed_region(index, places_[index].generation); }

  Registrar& registrar_;
  SegmentView segment_;
  UnmappedRanges* notes_;
  std::vector<Place> places_;
  std::multimap<std::uint64_t, std::uint32_t> ranges_;  // by base: those that may be found
  std::uint64_t longest_ = 0;                           // upper bound of the ranges' length
  std::uint64_t uses_ = 0;
  std::uint64_t hits_ = 0;
  std::size_t registered_ = 0;
};

}  // namespace outrigger::client
