// The shared memory of nonblocking collectives: what each member has posted. One memfd per team, beside the team's own.
//
//     member 0: overflowed | left | passed | others | places | their bytes | more places | more bytes |
//     member 1: ...
//
// Operation n has place n mod kPlaces of each member. A member whose place is still read uses one of the others, of
// which there are many. Pages get memory when they are first written.
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
#include "intranode/flag.hpp"

namespace outrigger::intranode {

// As many bytes are beside the flag, in its cache line.
inline constexpr std::size_t kPostedBeside = 40;

// So many of the last calls that a member has made in another way are kept.
inline constexpr std::size_t kOtherCalls = 4;

// One member's part in one operation.
struct PostedPlace {
  // The operation's number.
  alignas(64) std::atomic<std::uint64_t> posted;
  std::atomic<std::uint64_t> call;  // CallWord
  std::uint64_t which;              // of PostsArea::more_bytes
  std::array<std::byte, kPostedBeside> beside;
};
static_assert(sizeof(PostedPlace) == 64, "one cache line to look at for what is little");

// One member's part. Only that member writes it.
struct PostsArea {
  // The last operation whose place is one of `more`.
  alignas(64) std::atomic<std::uint64_t> overflowed;
  // This member reads nothing of this operation or earlier ones any more.
  alignas(64) std::atomic<std::uint64_t> left;
  // The last operation to which the member contributes nothing.
  alignas(64) std::atomic<std::uint64_t> passed;
  // The member's calls that members do not do: their number, and the last ones, tagged with their numbers.
  alignas(64) std::atomic<std::uint64_t> others;
  std::array<std::atomic<std::uint64_t>, kOtherCalls> other_calls;
  // Only the first member's counts, and any member writes it: up to which operation members do them (Posts::agree()).
  std::atomic<std::uint64_t> agreed;
  std::array<PostedPlace, kPlaces> places;
  alignas(4096) std::array<std::array<std::byte, kMostPosted>, kPlaces> bytes;
  alignas(4096) std::array<PostedPlace, kMorePlaces> more;
  alignas(4096) std::array<std::array<std::byte, kMostPosted>, kMorePlaces> more_bytes;
};

// Copies share the mapping.
class PostsMemory {
 public:
  // As ControlArea's.
  [[nodiscard]] static Result<UniqueFd> create(std::uint32_t members);
  [[nodiscard]] static Result<PostsMemory> attach(int fd, std::uint32_t members);
  // Gives the part that each member needs memory. False: there is none.
  [[nodiscard]] bool allocate(std::uint32_t member) const;
  // Shared address space.
  [[nodiscard]] static constexpr std::uint64_t bytes(std::uint32_t members) { return members * sizeof(PostsArea); }

  [[nodiscard]] std::uint32_t members() const { return members_; }
  [[nodiscard]] PostsArea& member(std::uint32_t rank) const {
    return reinterpret_cast<PostsArea*>(mapping_->base())[rank];
  }

 private:
  PostsMemory(Mapping mapping, std::uint32_t members)
      : mapping_(std::make_shared<Mapping>(std::move(mapping))), members_(members) {}

  std::shared_ptr<Mapping> mapping_;
  std::uint32_t members_;
};

}  // namespace outrigger::intranode
