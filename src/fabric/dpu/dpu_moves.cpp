// Moves between ranks of the host: their chunks, and those that go through staging on the DPU.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "fabric/dpu/dpu_fabric.hpp"
#include "protocol/exported_memory.hpp"

namespace outrigger::fabric::dpu {
namespace {

constexpr std::chrono::seconds kLandingTime{2};

MemoryRef part(MemoryRef memory, std::uint64_t offset) {
  memory.address += offset;
  return memory;
}

}  // namespace

void DpuFabric::move(const Block& from, const Block& to, MoveCompletion& completion) {
  if (from.bytes == 0 || from.bytes != to.bytes) std::abort();  // against the contract: a bug of ours
  const std::uint64_t id = next_move_++;
  Move& move = moves_.emplace(id, Move{from, to, &completion}).first->second;
  if (!may_alias(move)) return queue(id, move);
  find(to.memory.owner)->remote->with_range(to.memory.region, [this, id](const RemoteRangePtr& range) {
    choose_way(id, range);
  });
}

void DpuFabric::queue(std::uint64_t id, Move& move) {
  if (std::exchange(move.queued, true)) return;
  (move.target ? alias_ready_ : ready_).push_back(id);
}

void DpuFabric::unqueue(std::uint64_t id, Move& move) {
  if (std::exchange(move.queued, false)) std::erase(move.target ? alias_ready_ : ready_, id);
}

DpuFabric::Move* DpuFabric::next_of(std::deque<std::uint64_t>& queue, std::uint64_t& id) {
  id = queue.front();
  queue.pop_front();
  const auto found = moves_.find(id);
  if (found == moves_.end()) return nullptr;
  found->second.queued = false;
  return found->second.has_more() ? &found->second : nullptr;
}

bool DpuFabric::start_chunks() {
  bool any = false;
  std::uint64_t id = 0;
  while (!alias_ready_.empty() && alias_reads_ < options_.buffers) {
    Move* move = next_of(alias_ready_, id);
    if (move == nullptr) continue;
    start_alias_chunk(id, *move);
    any = true;
  }
  while (!ready_.empty()) {
    ucx::StagingBuffer staging = staging_.take();
    if (!staging.valid()) return any;
    Move* move = next_of(ready_, id);
    if (move == nullptr) continue;
    start_chunk(id, *move, std::move(staging));
    any = true;
  }
  return any;
}

// No part is smaller than what may be moved by alias, unless the whole is.
DpuFabric::Chunk DpuFabric::next_chunk(Move& move) const {
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

void DpuFabric::start_chunk(std::uint64_t id, Move& move, ucx::StagingBuffer staging) {
  const Chunk chunk = next_chunk(move);
  const std::uint64_t offset = chunk.offset;
  move.staged = true;
  ++move.open_chunks;
  if (move.has_more()) queue(id, move);
  auto held = std::make_shared<ucx::StagingBuffer>(std::move(staging));
  const std::span<std::byte> room(held->data(), chunk.bytes);
  start_read(part(move.from.memory, offset), room, [this, id, offset, held, room](MoveStatus status) {
    const auto found = moves_.find(id);
    if (found == moves_.end()) return;
    const Move& now = found->second;
    if (status != MoveStatus::ok || now.completion == nullptr) return chunk_ended(id, status);
    start_write(part(now.to.memory, offset), room, [this, id, held](MoveStatus written) { chunk_ended(id, written); });
  });
}

void DpuFabric::chunk_ended(std::uint64_t id, MoveStatus status) {
  const auto found = moves_.find(id);
  if (found == moves_.end()) return;
  Move& move = found->second;
  --move.open_chunks;
  if (move.status == MoveStatus::ok) move.status = status;
  if (move.status != MoveStatus::ok) unqueue(id, move);
  const bool over = move.status != MoveStatus::ok || !move.has_more();
  if (!over || move.open_chunks != 0) return;
  if (move.aliased && move.status == MoveStatus::ok && move.completion != nullptr) return read_after(id, move);
  finish(id);
}

void DpuFabric::finish(std::uint64_t id) {
  const auto found = moves_.find(id);
  const Move& move = found->second;
  if (move.completion != nullptr) {
    finished_.add(*move.completion, MoveOutcome{move.status, move.staged ? Reach::rdma : Reach::alias});
  }
  moves_.erase(found);
}

// UCX cannot be told to leave off: what is being read and written is waited for.
void DpuFabric::cancel(MoveCompletion& completion) {
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
  while (moves_.contains(id) && Clock::now() < deadline) (void)progress_memory();
}

void DpuFabric::start_read(const MemoryRef& from, std::span<std::byte> to, Accessed done) {
  Rank* owner = find(from.owner);
  if (owner == nullptr) return rma_.later([done = std::move(done)] { done(MoveStatus::owner_lost); });
  owner->remote->get(from, to, std::move(done));
}

void DpuFabric::start_write(const MemoryRef& to, std::span<const std::byte> from, Accessed done) {
  Rank* owner = find(to.owner);
  if (owner == nullptr) return rma_.later([done = std::move(done)] { done(MoveStatus::owner_lost); });
  owner->remote->put(to, from, std::move(done));
}

bool DpuFabric::progress_memory() {
  const bool worked = worker_->progress();
  return rma_.deliver() || worked;
}

// What is wrong with a range is found when it is read or written.
NodeMemory::View DpuFabric::view(const MemoryRef& memory, std::uint64_t /*bytes*/) {
  return View{find(memory.owner) != nullptr ? MoveStatus::ok : MoveStatus::owner_lost, nullptr, nullptr};
}

MoveStatus DpuFabric::read(const MemoryRef& /*from*/, std::span<std::byte> /*to*/) {
  std::abort();  // is_remote(): a bug of ours
}

MoveStatus DpuFabric::write(const MemoryRef& /*to*/, std::span<const std::byte> /*from*/) {
  std::abort();
}

}  // namespace outrigger::fabric::dpu
