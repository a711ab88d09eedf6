// The memory that a group's members on a node share with their service process.
//
//     ways      who does each collective of the group: the member that comes first decides
//     seats     a member's last post: its buffers, as blocks
//     head      what the process has done, and two results of pieces in turns
//
// A group on several nodes has a service process on each, and an area on each.
//
// The process does post n when all members have posted n. It is done with it when `completed` or `returned` is n.
//
// A reduction may overwrite the contributions. So the process first makes a piece's result here, then counts it in
// `pieces`, and then writes it to the members. If it ends before all is done, members copy that piece from here, and
// reduce the rest by themselves.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/futex.hpp"
#include "base/result.hpp"
#include "base/shared_memory.hpp"
#include "base/unique_fd.hpp"
#include "intranode/flag.hpp"

namespace outrigger::group {

// Bytes of a piece of a reduction, or of a copy, at most.
inline constexpr std::uint64_t kPieceBytes = std::uint64_t{256} << 10;
// Contributions to a piece stay in the core's cache.
[[nodiscard]] constexpr std::uint64_t piece_bytes(std::uint32_t members) {
  constexpr std::uint64_t kCachedPages = 256;
  return std::min(kPieceBytes, kCachedPages / members * 4096);
}
static_assert(piece_bytes(intranode::kMostMembers) > 0);

struct PostedBlock {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

enum class PostedCall : std::uint32_t {
  barrier,
  broadcast,
  gather,
  scatter,
  all_gather,
  all_to_all,
  reduce,
  all_reduce,
  reduce_scatter
};
[[nodiscard]] constexpr bool is_reduction(PostedCall call) {
  return call == PostedCall::reduce || call == PostedCall::all_reduce || call == PostedCall::reduce_scatter;
}

// Calls with one block on a side have it at index 0; others have one for each member.
struct Post {
  std::uint64_t number = 0;  // of the call, among the group's collectives
  PostedCall call = PostedCall::barrier;
  std::int32_t type = 0;
  std::int32_t operation = 0;
  std::uint32_t root = 0;
  std::array<PostedBlock, intranode::kMostMembers> from{};
  std::array<PostedBlock, intranode::kMostMembers> into{};
};

// Pieces of a post that are whole, in one word.
struct PieceCount {
  std::uint64_t post = 0;
  std::uint64_t pieces = 0;

  [[nodiscard]] std::uint64_t word() const { return post << kBits | pieces; }
  [[nodiscard]] static PieceCount of(std::uint64_t word) { return {word >> kBits, word & ((1U << kBits) - 1)}; }

  static constexpr unsigned kBits = 26;
};

struct PostSeat {
  alignas(64) std::atomic<std::uint64_t> posted;
  std::atomic<bool> has_joined;
  std::atomic<bool> has_left;
  Post post;
};

struct ServiceHead {
  // Rung by each post. The process sleeps on it.
  alignas(64) std::atomic<std::uint32_t> doorbell;
  std::atomic<std::uint32_t> sleeps;
  // Members have failed: the process must touch no memory of theirs any more.
  std::atomic<std::uint32_t> stopped;
  // Members sleep on it.
  alignas(64) std::atomic<std::uint32_t> changes;
  std::atomic<std::uint32_t> pid;
  std::atomic<std::int32_t> start_error;
  std::atomic<std::uint64_t> completed;
  std::atomic<std::uint64_t> returned;  // members must do it themselves
  std::atomic<std::uint64_t> pieces;    // a PieceCount
  std::atomic<std::uint64_t> beats;     // heartbeat: pieces, copies and looks so far
  std::atomic<std::uint32_t> touches;   // it may be writing to members' memory
  // Of a group on several nodes; the sets have a bit for each node.
  std::atomic<std::uint64_t> failure;    // word of a Failure that the process has noticed
  std::atomic<std::uint64_t> waits_for;  // nodes
  std::atomic<std::uint64_t> lost;       // nodes that it waited for, and whose service processes it cannot reach
  std::atomic<std::uint64_t> moves;      // how often something has come from other nodes, or has gone there
  alignas(64) std::array<std::atomic<std::uint64_t>, 64> ways;
  alignas(4096) std::array<std::array<std::byte, kPieceBytes>, 2> results;
};

// Copies share the mapping.
class ServiceArea {
 public:
  [[nodiscard]] static Result<UniqueFd> create(std::uint32_t members) {
    return create_sealed_memory("outrigger-group-service", bytes(members), Backing::reserved);
  }
  [[nodiscard]] static Result<ServiceArea> attach(int fd, std::uint32_t members) {
    if (Status status = check_sealed_memory(fd, bytes(members)); !status) return Error{status.error()};
    Result<Mapping> mapping = Mapping::map(fd, bytes(members));
    if (!mapping) return Error{mapping.error()};
    return ServiceArea(std::move(mapping).value(), members);
  }

  [[nodiscard]] std::uint32_t members() const { return members_; }
  // The member that came first has decided that members do this call by themselves. False also if none has come yet.
  [[nodiscard]] bool is_by_members(std::uint64_t number) const {
    const std::uint64_t way = head().ways[number % head().ways.size()].load(std::memory_order_acquire);
    // Members have not passed a call that is the process's.
    return way >> 1 > number || way == number << 1;
  }
  void ring() const {
    head().doorbell.fetch_add(1, std::memory_order_seq_cst);
    if (head().sleeps.load(std::memory_order_seq_cst) != 0) futex_wake_all(head().doorbell);
  }
  [[nodiscard]] ServiceHead& head() const { return *reinterpret_cast<ServiceHead*>(mapping_->base()); }
  [[nodiscard]] PostSeat& seat(std::uint32_t member) const {
    return reinterpret_cast<PostSeat*>(mapping_->base() + sizeof(ServiceHead))[member];
  }

 private:
  ServiceArea(Mapping mapping, std::uint32_t members)
      : mapping_(std::make_shared<Mapping>(std::move(mapping))), members_(members) {}
  [[nodiscard]] static constexpr std::uint64_t bytes(std::uint32_t members) {
    return sizeof(ServiceHead) + std::uint64_t{members} * sizeof(PostSeat);
  }

  std::shared_ptr<Mapping> mapping_;
  std::uint32_t members_;
};

}  // namespace outrigger::group
