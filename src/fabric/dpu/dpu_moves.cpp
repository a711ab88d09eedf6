// Moves between ranks of the host, through staging on the DPU.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "fabric/dpu/dpu_fabric.hpp"

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
  moves_.emplace(id, Move{from, to, &completion, 0, 0, MoveStatus::ok});
  ready_.push_back(id);
}

bool DpuFabric::start_chunks() {
  bool any = false;
  while (!ready_.empty()) {
    ucx::StagingBuffer staging = staging_.take();
    if (!staging.valid()) return any;
    const std::uint64_t id = ready_.front();
    ready_.pop_front();
    const auto found = moves_.find(id);
    if (found == moves_.end()) continue;
    start_chunk(id, found->second, std::move(staging));
    any = true;
  }
  return any;
}

void DpuFabric::start_chunk(std::uint64_t id, Move& move, ucx::StagingBuffer staging) {
  const std::uint64_t offset = move.started_bytes;
  const std::uint64_t bytes = std::min(options_.chunk_bytes, move.from.bytes - offset);
  move.started_bytes += bytes;
  ++move.open_chunks;
  if (move.started_bytes < move.from.bytes) ready_.push_back(id);
  auto held = std::make_shared<ucx::StagingBuffer>(std::move(staging));
  const std::span<std::byte> room(held->data(), bytes);
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
  if (move.status != MoveStatus::ok) std::erase(ready_, id);
  const bool over = move.status != MoveStatus::ok || move.started_bytes == move.from.bytes;
  if (!over || move.open_chunks != 0) return;
  if (move.completion != nullptr) {
    finished_.add(*move.completion, MoveOutcome{move.status, Reach::rdma});
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
  std::erase(ready_, id);
  if (found->second.open_chunks == 0) {
    moves_.erase(found);
    return;
  }
  const Clock::time_point deadline = Clock::now() + kLandingTime;
  while (moves_.contains(id) && Clock::now() < deadline) (void)let_go_on();
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

bool DpuFabric::let_go_on() {
  const bool worked = worker_->progress();
  return rma_.deliver() || worked;
}

// What is wrong with a range is found when it is read or written.
NodeMemory::View DpuFabric::view(const MemoryRef& memory, std::uint64_t /*bytes*/) {
  return View{find(memory.owner) != nullptr ? MoveStatus::ok : MoveStatus::owner_lost, nullptr, nullptr};
}

MoveStatus DpuFabric::read(const MemoryRef& /*from*/, std::span<std::byte> /*to*/) {
  std::abort();  // elsewhere(): a bug of ours
}

MoveStatus DpuFabric::write(const MemoryRef& /*to*/, std::span<const std::byte> /*from*/) {
  std::abort();
}

}  // namespace outrigger::fabric::dpu
