#include "engine/relay/segments.hpp"

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
  left_ = count_ = static_cast<std::uint32_t>((bytes_ + part_bytes_ - 1) / part_bytes_);
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
  route_ = route;
  rank_.split_move(count_);
  for (std::uint32_t number = 0; number < count_; ++number) start(number);
}

void Parts::receive_in_turns(Copies::Route route, ReadsHere reads_here) {
  const Membership& membership = operation_.membership();
  const std::size_t nodes = membership.services_by_node().size();
  const std::size_t own = membership.node_of(membership.self());
  const std::size_t first = membership.node_of(membership.service_of(source_));
  route_ = route;
  reads_here_ = reads_here;
  parts_a_turn_ = static_cast<std::uint32_t>(nodes - 1);
  place_ = static_cast<std::uint32_t>((own + nodes - first - 1) % nodes);
  rank_.split_move(count_);
  started_.resize(count_);
  for (std::uint32_t number = 0; number < count_; ++number) {
    if (operation_.copies().is_coming(piece(number))) start(number);
  }
  for (std::uint32_t turn = 0; turn < turns(); ++turn) {
    if (!own_part(turn)) start_turn(turn, std::nullopt);
  }
  for (std::uint32_t i = 0; i < kReadAtOnce; ++i) start_next_own();
}

std::optional<std::uint32_t> Parts::own_part(std::uint32_t turn) const {
  const std::uint32_t number = turn * parts_a_turn_ + place_;
  if (number >= count_ || !reads_here_(operation_, source_, number)) return std::nullopt;
  return number;
}

void Parts::start_next_own() {
  while (next_turn_ < turns()) {
    const std::optional<std::uint32_t> own = own_part(next_turn_++);
    if (own && !started_[*own]) return start(*own);
  }
}

void Parts::start_turn(std::uint32_t turn, std::optional<std::uint32_t> but) {
  const std::uint32_t end = std::min(count_, (turn + 1) * parts_a_turn_);
  for (std::uint32_t number = turn * parts_a_turn_; number < end; ++number) {
    if (number != but && !started_[number]) start(number);
  }
}

void Parts::start(std::uint32_t number) {
  if (!started_.empty()) started_[number] = true;
  rank_.spawn(receive_one(operation_, *this, number));
}

Task Parts::receive_one(Operation& operation, Parts& parts, std::uint32_t number) {
  LocalRank& rank = parts.rank_;
  const Copies::Piece piece = parts.piece(number);
  Copies::Copy copy(operation.copies(), rank, piece, parts.route_);
  co_await copy.found();  // at a rank of this service process or of another, or at the source
  co_await operation.enter_window(rank);
  const Block from = copy.from();
  const Block to = copy.to();
  const fabric::MoveOutcome outcome = co_await operation.move(from, to);
  operation.leave_window(rank);
  copy.moved(outcome);  // others may read it here, and the rank stays for those that wait for it
  parts.end_one(number, outcome);
}

void Parts::end_one(std::uint32_t number, const fabric::MoveOutcome& outcome) {
  if (outcome_.status == fabric::MoveStatus::ok) outcome_ = outcome;
  const std::uint32_t turn = number / parts_a_turn_;
  if (reads_here_ != nullptr && own_part(turn) == number) {
    start_turn(turn, number);
    start_next_own();
  }
  if (--left_ == 0) {
    ended_.notify();
  } else {
    rank_.end_part();
  }
}

}  // namespace outrigger::engine
