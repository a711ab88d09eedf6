#include "fabric/dpu/rank_moves.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <utility>

#include "protocol/shared/exported_memory.hpp"

namespace outrigger::fabric::dpu {
void RankMoves::begin(const Block& from, const Block& to, MoveCompletion& completion) {
  if (from.bytes == 0 || from.bytes != to.bytes) std::abort();  // broken contract: a bug
  const std::uint64_t id = next_move_++;
  Move& move = moves_.emplace(id, Move{from, to, &completion}).first->second;
  if (!may_alias(move)) return queue(id, move);
  const auto known = [this, id](const RemoteRangePtr& range) { choose_way(id, range); };
  ranks_.find(to.memory.owner)->remote->with_range(to.memory.region, known);
}

// UCX cannot cancel reads and writes, so this waits for them.
void RankMoves::cancel(MoveCompletion& completion) {
  finished_.forget(completion);
  const auto found =
      std::ranges::find_if(moves_, [&](const auto& item) { return item.second.completion == &completion; });
  if (found == moves_.end()) return;
  const std::uint64_t id = found->first;
  found->second.completion = nullptr;
  found->second.status = MoveStatus::owner_lost;
  unqueue(id, found->second);
  if (found->second.open_chunks == 0) {
    moves_.erase(found);
    return;
  }
  const Clock::time_point deadline = Clock::now() + kLandingTime;
  while (moves_.contains(id) && Clock::now() < deadline) (void)ranks_.progress_memory();
}

RankMoves::Move* RankMoves::find(std::uint64_t id) {
  const auto found = moves_.find(id);
  return found == moves_.end() ? nullptr : &found->second;
}

// ---------------------------------------------------------------- turns and chunks

void RankMoves::queue(std::uint64_t id, Move& move) {
  if (std::exchange(move.queued, true)) return;
  (move.target ? alias_ready_ : ready_).push_back(id);
}

void RankMoves::unqueue(std::uint64_t id, Move& move) {
  if (std::exchange(move.queued, false)) std::erase(move.target ? alias_ready_ : ready_, id);
}

RankMoves::Move* RankMoves::next_of(std::deque<std::uint64_t>& queue, std::uint64_t& id) {
  id = queue.front();
  queue.pop_front();
  Move* move = find(id);
  if (move == nullptr) return nullptr;
  move->queued = false;
  return move->has_more() ? move : nullptr;
}

bool RankMoves::start_chunks() {
  bool any = false;
  std::uint64_t id = 0;
  while (!alias_ready_.empty() && alias_reads_ < options_.buffers) {
    Move* move = next_of(alias_ready_, id);
    if (move == nullptr) continue;
    start_alias(id, *move);
    any = true;
  }
  while (!ready_.empty()) {
    ucx::StagingBuffer staging = staging_.take();
    if (!staging.valid()) return any;
    Move* move = next_of(ready_, id);
    if (move == nullptr) continue;
    start_staged(id, *move, std::move(staging));
    any = true;
  }
  return any;
}

RankMoves::Chunk RankMoves::begin_chunk(std::uint64_t id, Move& move) {
  const Chunk chunk = next_chunk(move);
  assert(chunk.bytes != 0 && chunk.offset + chunk.bytes <= move.from.bytes && "chunks lie within the move");
  ++move.open_chunks;
  if (move.has_more()) queue(id, move);
  return chunk;
}

// Chunks are not smaller than the minimum for alias, unless the whole move is.
RankMoves::Chunk RankMoves::next_chunk(Move& move) const {
  if (!move.refused.empty()) {
    const Chunk refused = move.refused.back();
    move.refused.pop_back();
    return refused;
  }
  const std::uint64_t left = move.from.bytes - move.started_bytes;
  std::uint64_t bytes = std::min(options_.chunk_bytes, left);
  if (bytes < left && left - bytes < kLeastAliasBytes) bytes = left / 2;
  const Chunk chunk{move.started_bytes, bytes};
  move.started_bytes += bytes;
  return chunk;
}

void RankMoves::chunk_ended(std::uint64_t id, MoveStatus status) {
  Move* move = find(id);
  if (move == nullptr) return;
  assert(move->open_chunks != 0 && "every chunk ends once");
  --move->open_chunks;
  if (move->status == MoveStatus::ok) move->status = status;
  if (move->status != MoveStatus::ok) unqueue(id, *move);
  const bool over = move->status != MoveStatus::ok || !move->has_more();
  if (!over || move->open_chunks != 0) return;
  if (move->aliased && move->status == MoveStatus::ok && move->completion != nullptr) return read_after(id, *move);
  finish(id);
}

void RankMoves::finish(std::uint64_t id) {
  const auto found = moves_.find(id);
  const Move& move = found->second;
  if (move.completion != nullptr) {
    finished_.add(*move.completion, MoveOutcome{move.status, move.staged ? Reach::rdma : Reach::alias});
  }
  moves_.erase(found);
}

// ---------------------------------------------------------------- staged

void RankMoves::start_staged(std::uint64_t id, Move& move, ucx::StagingBuffer staging) {
  const Chunk chunk = begin_chunk(id, move);
  move.staged = true;
  auto held = std::make_shared<ucx::StagingBuffer>(std::move(staging));
  const std::span<std::byte> room(held->data(), chunk.bytes);
  const auto read = [this, id, offset = chunk.offset, held, room](MoveStatus status) {
    const Move* now = find(id);
    if (now == nullptr) return;
    if (status != MoveStatus::ok || now->completion == nullptr) return chunk_ended(id, status);
    const auto written = [this, id, held](MoveStatus end) { chunk_ended(id, end); };
    ranks_.start_write(now->to.memory.at(offset), room, written);
  };
  ranks_.start_read(move.from.memory.at(chunk.offset), room, read);
}

// ---------------------------------------------------------------- by alias

bool RankMoves::may_alias(const Move& move) {
  const RemoteRank* owner = ranks_.find(move.to.memory.owner);
  return owner != nullptr && owner->alias && move.from.bytes >= kLeastAliasBytes;
}

void RankMoves::choose_way(std::uint64_t id, const RemoteRangePtr& destination) {
  Move* move = find(id);
  if (move == nullptr) return;  // cancelled
  const MemoryRef& to = move->to.memory;
  if (destination && destination->holds(to.address, move->to.bytes)) {
    move->target = imports_->use(
        {to.owner, destination->region(), destination->base(), destination->bytes(), destination->exported()});
  }
  queue(id, *move);
}

void RankMoves::start_alias(std::uint64_t id, Move& move) {
  const Chunk chunk = begin_chunk(id, move);
  ++alias_reads_;
  const auto ended = [this, id, chunk, target = move.target](MoveStatus status) {
    assert(alias_reads_ != 0 && "every read ends once");
    --alias_reads_;
    alias_ended(id, chunk, status);
  };
  RemoteRank* source = ranks_.find(move.from.memory.owner);
  if (source == nullptr) return ranks_.rma().later([ended] { ended(MoveStatus::owner_lost); });
  source->remote->get_into(move.from.memory.at(chunk.offset), chunk.bytes, move.target->get(),
                           move.to.memory.address + chunk.offset, ended);
}

void RankMoves::alias_ended(std::uint64_t id, const Chunk& chunk, MoveStatus status) {
  Move* move = find(id);
  if (move == nullptr) return;
  if (status == MoveStatus::ok) move->aliased = true;
  const bool wanted = move->completion != nullptr && move->status == MoveStatus::ok;
  if (status == MoveStatus::ok || !wanted) return chunk_ended(id, status);
  imports_->refuse(move->to.memory.owner, move->to.memory.region);
  unqueue(id, *move);
  move->target.reset();
  move->refused.push_back(chunk);
  --move->open_chunks;
  queue(id, *move);
}

void RankMoves::read_after(std::uint64_t id, Move& move) {
  move.aliased = false;
  ++move.open_chunks;
  using Word = std::array<std::byte, sizeof(std::uint64_t)>;
  static_assert(sizeof(Word) <= kLeastAliasBytes);
  auto word = std::make_shared<Word>();
  const MemoryRef last = move.to.memory.at(move.to.bytes - sizeof(Word));
  ranks_.start_read(last, *word, [this, id, word](MoveStatus status) { chunk_ended(id, status); });
}

}  // namespace outrigger::fabric::dpu
