// A move within the node while it is under way, and the pieces it is cut into.
#pragma once

#include <cstdint>
#include <list>

#include "fabric/fabric.hpp"

namespace outrigger::fabric {

struct HostMove {
  Block from;
  Block to;
  MoveCompletion* completion = nullptr;
  std::uint64_t left_bytes = 0;  // not yet settled
  std::uint32_t lent = 0;        // pieces that a copier has
  MoveStatus status = MoveStatus::ok;
  Reach reach = Reach::mapped;  // the dearest of its pieces
  std::list<HostMove>::iterator self;
};

// Some bytes of a move, in one queue or with one copier.
struct Piece {
  HostMove* move = nullptr;  // null: cancelled while a copier held it
  WorldRank destination;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

}  // namespace outrigger::fabric
