// A long copy from one member's memory to another's that both of them make: each takes piece after piece, so that the
// one that would wait works as well.
//
// Source: C. P. Kruskal, A. Weiss: "Allocating Independent Subtasks on Parallel Processors", IEEE Transactions on
// Software Engineering 11(10), 1985: chunk self-scheduling.
//
// Picture (pieces 0 to 4 of a block):
//
//     owner:    opens ▶ arrives ── reads 0 ── reads 2 ── reads 4 ── waits: lent ── owned ▶
//     lender:           arrives ── writes 1 ── writes 3 ── lent ▶ ──────────────── waits: owned
//
//     cost    n / 2 copied by each if both begin at once; n by the owner alone if the lender has no core of its own
//     bounds  kMostPieces. A page that is new to the owner comes to the memory of the core that writes there first
//
// Invariants. They hold whatever calls the members make:
//     - A piece is taken once: `taken` counts up from step * 2^16, in one exchange.
//     - The lender writes only pieces that it has taken, and raises `lent` after the last one.
//     - The owner's memory is its own again when nothing is left to take, and the lender has raised `lent` if it took
//       any. An owner whose call fails takes all that is left and copies nothing (abandon()).
//     - A lender that has taken a piece does not wait before it raises `lent`, which it does also if its call fails.
//       So the owner waits for `lent` as long as the lender lives.
//     - A lender that is in another step takes nothing: its exchange does not find its step.
//
// Thread rule: the team's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "intranode/meeting.hpp"
#include "intranode/member_blocks.hpp"
#include "intranode/peer_memory.hpp"

namespace outrigger::intranode {

class SharedCopy {
  using Site = steps::Site;

 public:
  // A copy in the meeting's step `step`; there are `bytes`. Both ends say the same `most_pieces`.
  SharedCopy(Meeting& meeting, std::uint32_t owner, std::uint32_t lender, std::uint64_t step, std::uint64_t bytes,
             std::uint64_t most_pieces = kMostPieces)
      : meeting_(&meeting),
        turns_(&meeting.member(owner).turns[lender]),
        lender_(lender),
        owner_(owner),
        mark_(step << kCountBits),
        taken_(mark_),
        bytes_(bytes),
        piece_bytes_(piece_bytes(bytes, most_pieces)),
        pieces_((bytes - 1) / piece_bytes_ + 1) {}

  // A piece's length if a block, not empty, has so many.
  [[nodiscard]] static std::uint64_t piece_bytes(std::uint64_t bytes, std::uint64_t most_pieces) {
    return ((bytes - 1) / most_pieces / kPieceUnit + 1) * kPieceUnit;
  }

  // Owner, before it arrives in the step.
  void open() {
    steps::tell(turns_->bytes, said_bytes(bytes_));
    steps::tell(turns_->taken, mark_);
  }
  // Both have arrived in the step. Do the two give the same length? Otherwise nothing may be written. An owner that has
  // all may be in a later step already.
  [[nodiscard]] bool fits() {
    const std::uint64_t said = steps::told(turns_->bytes);
    return said >> kBytesBits != said_bytes(0) >> kBytesBits || meeting_->fits(owner_, bytes_, said & kMostBytes);
  }
  // Both have arrived in the step, and fit. The owner copies the next piece that is not taken yet. Where the
  // lender has no core to help, it copies all of them. False: there is none.
  [[nodiscard]] bool read_piece(PeerMemory& memory, std::uint64_t from, std::span<std::byte> to) {
    return copy_next(meeting_->has_own_core() ? 1 : pieces_, [&](std::uint64_t first, std::uint64_t bytes) {
      return memory.read(lender_, from + first, to.subspan(first, bytes));
    });
  }
  // The lender copies a piece into the owner's block, likewise.
  [[nodiscard]] bool write_piece(PeerMemory& memory, std::span<const std::byte> from, std::uint64_t to) {
    if (pieces_ == 1 || !meeting_->has_own_core() || !memory.may_write() || !all_right_) return false;
    return copy_next(1, [&](std::uint64_t first, std::uint64_t bytes) {
      return memory.write(owner_, to + first, from.subspan(first, bytes));
    });
  }

  // Lender, where the owner copies nothing: may it write the next piece?
  [[nodiscard]] bool take_piece() { return take_to_make(1) != 0; }
  // Lender, when it has written all. `complete`: all could be written, by it and to all others.
  void tell_lent(bool complete, Site site = Site::current()) {
    all_right_ = complete;
    end_writing(site);
  }
  // Owner, who copies nothing. `complete` becomes false if the lender says so.
  [[nodiscard]] Outcome wait_lent(bool& complete, Site site = Site::current()) {
    if (!meeting_->wait_for(turns_->lent, mark_, lender_, site)) return Outcome::ended;
    closed_ = true;
    complete = steps::told(turns_->lent.value) == mark_ && complete;
    return Outcome::done;
  }

  // Lender, when write_piece() has found nothing.
  void end_writing(Site site = Site::current()) {
    if (made_ != 0 && steps::keeps(site)) Waiter::raise(turns_->lent, mark_ | (all_right_ ? 0 : 1));
  }
  // Owner, when read_piece() has found nothing. Waits for the lender's pieces. `complete`: all have been copied.
  [[nodiscard]] Outcome end_reading(bool& complete, Site site = Site::current()) {
    closed_ = true;
    if (made_ < pieces_) {
      if (!meeting_->wait_written(turns_->lent, mark_, lender_, site)) return Outcome::ended;
      all_right_ = steps::told(turns_->lent.value) == mark_ && all_right_;
    }
    complete = all_right_;
    return Outcome::done;
  }
  // Owner, whose call fails.
  void abandon() {
    if (closed_) return;
    made_ += take(pieces_);
    if (made_ < pieces_) static_cast<void>(meeting_->wait_written(turns_->lent, mark_, lender_));
  }

  // Owner, where the lender waits for it.
  void tell_owned(bool complete, Site site = Site::current()) {
    if (steps::keeps(site)) Waiter::raise(turns_->owned, mark_ | (complete ? 0 : 1));
  }
  [[nodiscard]] Outcome wait_owned(bool& complete, Site site = Site::current()) {
    if (!meeting_->wait_for(turns_->owned, mark_, owner_, site)) return Outcome::ended;
    complete = steps::told(turns_->owned.value) == mark_;
    return Outcome::done;
  }

 private:
  static constexpr std::uint32_t kCountBits = 16;
  static_assert(kMostPieces < 1U << kCountBits);
  static constexpr std::uint32_t kBytesBits = 40;
  static constexpr std::uint64_t kMostBytes = (std::uint64_t{1} << kBytesBits) - 1;

  // With the end of the step's number.
  [[nodiscard]] std::uint64_t said_bytes(std::uint64_t bytes) const {
    return mark_ << (kBytesBits - kCountBits) | (bytes & kMostBytes);
  }

  // `most` pieces in a row.
  template <class Copy>
  bool copy_next(std::uint64_t most, const Copy& copy) {
    const std::uint64_t taken = take_to_make(most);
    if (taken == 0) return false;
    const std::uint64_t first = (taken_ - mark_ - taken) * piece_bytes_;
    all_right_ = copy(first, std::min(taken * piece_bytes_, bytes_ - first)) && all_right_;
    return true;
  }
  [[nodiscard]] std::uint64_t take_to_make(std::uint64_t most) {
    const std::uint64_t taken = take(most);
    made_ += taken;
    return taken;
  }
  // Pieces up to `taken_`, none or as many as `most`.
  [[nodiscard]] std::uint64_t take(std::uint64_t most, Site site = Site::current()) {
    while (taken_ < mark_ + pieces_) {
      const std::uint64_t next = std::min(taken_ + most, mark_ + pieces_);
      const std::uint64_t seen = steps::exchange(turns_->taken, taken_, next, site);
      if (seen == taken_) {
        taken_ = next;
        return next - seen;
      }
      if (seen >> kCountBits != mark_ >> kCountBits) return 0;
      taken_ = seen;
    }
    return 0;
  }

  Meeting* meeting_;
  CopyTurns* turns_;
  std::uint32_t lender_;
  std::uint32_t owner_;
  std::uint64_t mark_;
  std::uint64_t taken_;  // as last seen
  std::uint64_t bytes_;
  std::uint64_t piece_bytes_;
  std::uint64_t pieces_;
  std::uint64_t made_ = 0;  // pieces that this end has taken
  bool all_right_ = true;
  bool closed_ = false;
};

}  // namespace outrigger::intranode
