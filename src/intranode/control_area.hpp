// The shared memory by which the members of a team meet: flags, published buffers and slots. One memfd per team, so
// nothing is left behind when its members end, however they end.
//
//     member 0: arrived | left | identity | published ... | slot 0 | slot 1 |
//     member 1: ...
//
// Pages of slots get memory when they are first written.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/result.hpp"
#include "base/shared_memory.hpp"
#include "base/unique_fd.hpp"
#include "intranode/flag.hpp"

namespace outrigger::intranode {

// A range of its owner's memory.
struct PublishedBuffer {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

// What a member says of itself before the first operation.
struct Identity {
  std::int32_t pid = 0;
  std::uint64_t probe_address = 0;  // of a word that holds `probe_value`: process ids differ between namespaces
  std::uint64_t probe_value = 0;
};

// One member's part. Only that member writes it.
struct MemberArea {
  // The last step whose slot, published buffers and words are there.
  Flag arrived;
  // The last step in which the member has read all that it reads of others.
  Flag left;
  alignas(64) Identity identity;
  // Words that belong to a step, by the step's parity: a verdict, a count.
  std::array<std::uint64_t, 2> words;
  // One for each member, for the others to read directly.
  alignas(64) std::array<PublishedBuffer, kMostMembers> published;
  alignas(4096) std::array<std::array<std::byte, kSlotBytes>, 2> slots;
};

// Copies share the mapping.
class ControlArea {
 public:
  // Zeroed memory for a team. One member creates it and passes the descriptor on (or the others open
  // /proc/<pid>/fd/<fd>); it may be closed when all have attached.
  [[nodiscard]] static Result<UniqueFd> create(std::uint32_t members);
  // Maps it. The descriptor stays the caller's. Errors: `fd` is not such memory.
  [[nodiscard]] static Result<ControlArea> attach(int fd, std::uint32_t members);
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
