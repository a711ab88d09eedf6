#include "engine/parts.hpp"

#include <algorithm>

namespace outrigger::engine {

Parts::Parts(Operation& operation, LocalRank& rank, GroupRank source, std::uint32_t count)
    : operation_(operation),
      rank_(rank),
      source_(source),
      bytes_(rank.pull_bytes(source)),
      ended_(operation.scheduler()) {
  if (count < 2) return;
  part_bytes_ = (bytes_ + count - 1) / count;
  left_ = static_cast<std::uint32_t>((bytes_ + part_bytes_ - 1) / part_bytes_);
}

Copies::Piece Parts::piece(std::uint32_t number) const {
  Copies::Piece piece;
  piece.source = source_;
  piece.bytes = bytes_;
  if (part_bytes_ == 0) return piece;
  piece.piece = number;
  piece.offset_bytes = number * part_bytes_;
  piece.bytes = std::min(part_bytes_, bytes_ - piece.offset_bytes);
  return piece;
}

void Parts::receive(Copies::Route route) {
  const std::uint32_t count = left_;
  rank_.split_move(count);
  for (std::uint32_t number = 0; number < count; ++number) {
    rank_.spawn(receive_one(operation_, *this, route, number));
  }
}

Task Parts::receive_one(Operation& operation, Parts& parts, Copies::Route route, std::uint32_t number) {
  LocalRank& rank = parts.rank_;
  const Copies::Piece piece = parts.piece(number);
  Copies::Copy copy(operation.copies(), rank, piece, route);
  co_await copy.found();  // at a rank of this service process or of another, or at the source
  co_await operation.enter_window(rank);
  const Block from = copy.from();
  const Block to = copy.to();
  const fabric::MoveOutcome outcome = co_await operation.move(from, to);
  operation.leave_window(rank);
  copy.moved(outcome);  // others may read it here, and the rank stays for those that wait for it
  parts.end_one(outcome);
}

void Parts::end_one(const fabric::MoveOutcome& outcome) {
  if (outcome_.status == fabric::MoveStatus::ok) outcome_ = outcome;
  if (--left_ == 0) {
    ended_.notify();
  } else {
    rank_.end_part();
  }
}

}  // namespace outrigger::engine
