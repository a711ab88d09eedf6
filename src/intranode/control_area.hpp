// The shared memory by which the members of a team meet: flags and slots. One memfd per team, so nothing is left behind
// when its members end, however they end.
//
//     member 0: arrived, calls, little | ... | left, calls | doing | turns | slot 0 | slot 1 |
//     member 1: ...
//
// Pages of slots get memory when they are first written, or when their member asks for it.
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

// A long block that two members copy together (shared_copy.hpp): from the memory of one, the lender, to that of the
// other, the owner. All numbers are marked with the step of the copy.
struct CopyTurns {
  // Pieces that have been taken, by either.
  alignas(64) std::atomic<std::uint64_t> taken;
  std::atomic<std::uint64_t> bytes;  // of the owner's block, with the step
  Flag lent;                         // raised by the lender when it writes no more
  Flag owned;                        // raised by the owner when all is there
};

// A member's last two calls (CallWord), in turns.
using LastCalls = std::array<std::atomic<std::uint64_t>, 2>;

struct Arrival {
  // The step whose contents are in the slot, or here if they are few bytes.
  alignas(64) Flag flag;
  // Until the member arrived.
  LastCalls calls;
  std::array<std::byte, kLittleBytes> little;
};
static_assert(sizeof(Arrival) / 64 % 2 == 1, "they are in different sets of a cache");

// One member's part. Only that member writes it, but for the turns.
struct MemberArea {
  // Step s is in the one of number s mod kArrivals.
  std::array<Arrival, kArrivals> arrivals;
  // The last step in which the member has read all that it reads of others.
  alignas(64) Flag left;
  // In which the member has left steps.
  LastCalls left_in;
  // The program's call (CallWord) that the member is in or has been in last, by ranks or native. Read in long waits.
  alignas(64) std::atomic<std::uint64_t> doing;
  // Only the first member's counts, and any member writes it: a line about a late member has been printed.
  std::atomic<std::uint64_t> said_late;
  // For copies of this member's blocks, one for each lender.
  std::array<CopyTurns, kMostMembers> turns;
  alignas(4096) std::array<std::array<std::byte, kSlotBytes>, kSlots> slots;
};
static_assert(offsetof(MemberArea, doing) - offsetof(MemberArea, left) == 64, "one line to look at for who has left");

// Copies share the mapping.
class ControlArea {
 public:
  // Zeroed memory for a team. One member creates it and passes the descriptor on (or the others open
  // /proc/<pid>/fd/<fd>); it may be closed when all have attached.
  [[nodiscard]] static Result<UniqueFd> create(std::uint32_t members);
  // Maps it. The descriptor stays the caller's. Errors: `fd` is not such memory.
  [[nodiscard]] static Result<ControlArea> attach(int fd, std::uint32_t members);
  // Gives the member's part memory, near the calling thread. False: there is none, and to write there would end the
  // process. Does nothing before Linux 5.14.
  [[nodiscard]] bool allocate(std::uint32_t member) const;
  // Shared address space.
  [[nodiscard]] static constexpr std::uint64_t bytes(std::uint32_t members) { return members * sizeof(MemberArea); }

  [[nodiscard]] std::uint32_t members() const { return members_; }
  [[nodiscard]] MemberArea& member(std::uint32_t rank) const {
    return reinterpret_cast<MemberArea*>(mapping_->base())[rank];
  }

 private:
  ControlArea(Mapping mapping, std::uint32_t members)
      : mapping_(std::make_shared<Mapping>(std::move(mapping))), members_(members) {}

  std::shared_ptr<Mapping> mapping_;
  std::uint32_t members_;
};

}  // namespace outrigger::intranode
