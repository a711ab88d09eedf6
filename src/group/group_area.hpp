// The memory that a group's members on a node share beside their team's. It has the failure word, and a ring of
// messages for each ordered pair. For each member it has a doorbell, and whether the member has left. Members are
// numbered within the node. Pages of rings get memory when they are first written.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/result.hpp"
#include "base/shared_memory.hpp"
#include "base/unique_fd.hpp"
#include "group/failure.hpp"

namespace outrigger::group {

inline constexpr std::size_t kRingBytes = std::size_t{64} << 10;

// Bytes from one member to another. `written` and `read` count bytes and never fall: each has one writer.
struct Ring {
  alignas(64) std::atomic<std::uint64_t> written;
  alignas(64) std::atomic<std::uint64_t> read;
  alignas(4096) std::array<std::byte, kRingBytes> bytes;
};

// Rung by members that have written to, or read from, a ring of its owner.
struct alignas(64) Doorbell {
  std::atomic<std::uint32_t> rings;
  std::atomic<std::uint32_t> sleepers;
};

// Copies share the mapping.
class GroupArea {
 public:
  [[nodiscard]] static Result<UniqueFd> create(std::uint32_t members) {
    return create_sealed_memory("outrigger-group", bytes(members), Backing::on_touch);
  }
  [[nodiscard]] static Result<GroupArea> attach(int fd, std::uint32_t members) {
    if (Status status = check_sealed_memory(fd, bytes(members)); !status) return Error{status.error()};
    Result<Mapping> mapping = Mapping::map(fd, bytes(members));
    if (!mapping) return Error{mapping.error()};
    return GroupArea(std::move(mapping).value(), members);
  }

  [[nodiscard]] std::uint32_t members() const { return members_; }
  [[nodiscard]] Doorbell& doorbell(std::uint32_t member) const { return head().doorbells[member]; }
  [[nodiscard]] Ring& ring(std::uint32_t from, std::uint32_t to) const {
    return reinterpret_cast<Ring*>(mapping_->base() + sizeof(Head))[std::size_t{from} * members_ + to];
  }

  [[nodiscard]] Failure failure() const { return Failure::of(head().failure.load(std::memory_order_acquire)); }
  // After all that the member writes.
  void leave(std::uint32_t member) const { head().has_left[member].store(true, std::memory_order_release); }
  [[nodiscard]] bool has_left(std::uint32_t member) const {
    return head().has_left[member].load(std::memory_order_acquire);
  }
  // Returns the failure that counts: the first one.
  Failure fail(const Failure& failure) const {
    std::uint64_t expected = 0;
    head().failure.compare_exchange_strong(expected, failure.word(), std::memory_order_acq_rel);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // before the caller's memory changes
    return this->failure();
  }

 private:
  struct Head {
    alignas(64) std::atomic<std::uint64_t> failure;
    std::array<Doorbell, 64> doorbells;
    std::array<std::atomic<bool>, 64> has_left;
    alignas(4096) std::array<std::byte, 4096> end;
  };

  GroupArea(Mapping mapping, std::uint32_t members)
      : mapping_(std::make_shared<Mapping>(std::move(mapping))), members_(members) {}
  [[nodiscard]] static constexpr std::uint64_t bytes(std::uint32_t members) {
    return sizeof(Head) + std::uint64_t{members} * members * sizeof(Ring);
  }
  [[nodiscard]] Head& head() const { return *reinterpret_cast<Head*>(mapping_->base()); }

  std::shared_ptr<Mapping> mapping_;
  std::uint32_t members_;
};

}  // namespace outrigger::group
