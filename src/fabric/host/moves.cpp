#include "fabric/host/moves.hpp"

#include <utility>

namespace outrigger::fabric {
namespace {

using copy::Lane;

constexpr std::size_t kSpareMoves = 64;

// The lane of the two that shows better what the move has cost.
Lane slower_path(Lane one, Lane other) {
  if (one == Lane::relay || other == Lane::relay) return Lane::relay;
  return one == Lane::direct ? other : one;
}

Reach reach_of(Lane lane) {
  switch (lane) {
    case Lane::direct: return Reach::mapped;
    case Lane::xpmem: return Reach::xpmem;
    case Lane::cma: return Reach::cma;
    case Lane::lender: return Reach::copier;
    case Lane::relay: break;
  }
  return Reach::relay;
}

}  // namespace

ChunkQueue::ChunkQueue(Moves& moves) : moves_(moves) {
  moves_.queues_.push_back(this);
}

ChunkQueue::~ChunkQueue() {
  std::erase(moves_.queues_, this);
}

void ChunkQueue::move_all_to(ChunkQueue& other) {
  other.chunks_.insert(other.chunks_.end(), chunks_.begin(), chunks_.end());
  other.bytes_ += std::exchange(bytes_, 0);
  chunks_.clear();
}

void ChunkQueue::forget(const HostMove& move) {
  std::erase_if(chunks_, [&](const Chunk& chunk) {
    if (chunk.move != &move) return false;
    bytes_ -= chunk.bytes;
    return true;
  });
}

HostMove& Moves::start(const Block& from, const Block& to, MoveCompletion& completion) {
  assert(from.bytes != 0 && from.bytes == to.bytes && "both ends of a move have the same number of bytes, not 0");
  if (spare_.empty()) spare_.emplace_back();
  moves_.splice(moves_.end(), spare_, spare_.begin());
  HostMove& move = moves_.back();
  move = HostMove{from, to, &completion, from.bytes, 0, MoveStatus::ok, Lane::direct, std::prev(moves_.end())};
  bytes_under_way_ += from.bytes;
  return move;
}

void Moves::settle(const Chunk& chunk, MoveStatus status, Lane lane) {
  HostMove& move = *chunk.move;
  assert(chunk.bytes <= move.left_bytes && "no chunk is settled twice");
  move.left_bytes -= chunk.bytes;
  move.lane = slower_path(move.lane, lane);
  if (status != MoveStatus::ok && move.status == MoveStatus::ok) {
    move.status = status;
    forget_queued(move);
  }
  end_if_over(move);
}

bool Moves::take_back(const Chunk& chunk) {
  if (chunk.move->status == MoveStatus::ok) return true;
  end_if_over(*chunk.move);
  return false;
}

HostMove* Moves::forget(MoveCompletion& completion) {
  std::erase_if(ended_, [&](const Ended& ended) { return ended.completion == &completion; });
  const auto found = std::ranges::find(moves_, &completion, &HostMove::completion);
  if (found == moves_.end()) return nullptr;
  forget_queued(*found);
  return &*found;
}

void Moves::forget_queued(const HostMove& move) {
  for (ChunkQueue* queue : queues_) queue->forget(move);
}

// A failed move ends when no lender touches its memory any more.
void Moves::end_if_over(HostMove& move) {
  if (move.lent != 0 || (move.left_bytes != 0 && move.status == MoveStatus::ok)) return;
  ended_.push_back(Ended{move.completion, MoveOutcome{move.status, reach_of(move.lane)}});
  retire(move);
}

void Moves::retire(HostMove& move) {
  assert(bytes_under_way_ >= move.from.bytes && "a move ends once");
  bytes_under_way_ -= move.from.bytes;
  if (spare_.size() < kSpareMoves) {
    spare_.splice(spare_.end(), moves_, move.self);
  } else {
    moves_.erase(move.self);
  }
}

bool Moves::deliver_ended() {
  bool any = false;
  while (!ended_.empty()) {
    const Ended ended = ended_.front();
    ended_.pop_front();
    ended.completion->moved(ended.outcome);
    any = true;
  }
  return any;
}

}  // namespace outrigger::fabric
