// A member's slice of a reduction, piece by piece: each piece of the others' vectors is read out of their memory, and
// combined while it is in the core's cache.
//
// Thread rule: the team's.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "intranode/combine.hpp"
#include "intranode/meeting.hpp"
#include "intranode/member_blocks.hpp"
#include "intranode/peer_memory.hpp"
#include "intranode/shared_copy.hpp"

namespace outrigger::intranode {

// Blocks in a row.
class BlockRow {
 public:
  template <class LengthOf>
  BlockRow(std::uint32_t members, const LengthOf& length_of) {
    std::uint64_t end = 0;
    for (std::uint32_t member = 0; member < members; ++member) {
      bytes_[member] = length_of(member);
      offsets_[member] = end;
      end += bytes_[member];
    }
  }
  [[nodiscard]] Blocks at(std::byte* base) const { return Blocks::irregular(base, bytes_.data(), offsets_.data()); }
  // Blocks have no const form; these are read.
  [[nodiscard]] Blocks at(const std::byte* base) const { return at(const_cast<std::byte*>(base)); }
  [[nodiscard]] std::uint64_t offset(std::uint32_t member) const { return offsets_[member]; }

 private:
  std::array<std::uint64_t, kMostMembers> bytes_{};
  std::array<std::uint64_t, kMostMembers> offsets_{};
};

class SliceReduction {
 public:
  // `mine`: the member's contribution to the slice, which begins at `offset` of all vectors. In `step` the others tell
  // where theirs begin. Whole elements are in kPieceUnit. `scratch` keeps its memory for the next call.
  SliceReduction(Meeting& meeting, PeerMemory& memory, const std::byte* mine, std::uint64_t offset, std::uint64_t step,
                 const Combine& combine, std::vector<std::byte>& scratch)
      : meeting_(&meeting),
        memory_(&memory),
        mine_(mine),
        offset_(offset),
        step_(step),
        combine_(&combine),
        scratch_(&scratch) {}

  // In so many pieces, those of all members stay in the cache.
  [[nodiscard]] static std::uint64_t pieces_of(std::uint64_t bytes, std::uint32_t members) {
    return std::min<std::uint64_t>(bytes * members / kHotBytes + 1, kMostHotPieces);
  }
  [[nodiscard]] static std::uint64_t piece_bytes(std::uint64_t bytes, std::uint32_t members) {
    return bytes == 0 ? 0 : SharedCopy::piece_bytes(bytes, pieces_of(bytes, members));
  }

  // Takes memory for pieces of a slice of `bytes`. Before others may write here: a call that fails later would return
  // meanwhile.
  void prepare(std::uint64_t bytes) {
    const std::uint64_t all = piece_bytes(bytes, meeting_->size()) * meeting_->size();
    if (scratch_->size() < all) scratch_->resize(all);
  }
  // The result of a piece from `done` on, which may be where this member's contribution is. False: another's could not
  // be read.
  [[nodiscard]] bool combine(std::uint64_t done, std::span<std::byte> result) {
    std::array<const std::byte*, kMostMembers> pieces;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    pieces[meeting_->rank()] = mine_ + done;
    for (std::uint32_t distance = 1; distance < meeting_->size(); ++distance) {
      const std::uint32_t other = meeting_->after(distance);
      const std::span<std::byte> piece = std::span(*scratch_).subspan(distance * result.size(), result.size());
      if (!memory_->read(other, meeting_->word(other, step_) + offset_ + done, piece)) return false;
      pieces[other] = piece.data();
    }
    combine_->apply(std::span(pieces).first(meeting_->size()), result.data(), combine_->elements_in(offset_ + done),
                    combine_->elements_in(result.size()));
    return true;
  }

 private:
  static constexpr std::uint64_t kMostHotPieces = std::uint64_t{1} << 15;

  Meeting* meeting_;
  PeerMemory* memory_;
  const std::byte* mine_;
  std::uint64_t offset_;
  std::uint64_t step_;
  const Combine* combine_;
  std::vector<std::byte>* scratch_;
};

}  // namespace outrigger::intranode
