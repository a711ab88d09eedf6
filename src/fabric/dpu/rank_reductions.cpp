#include "fabric/dpu/rank_reductions.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstdlib>
#include <span>
#include <utility>

#include "fabric/ucx/remote_reduction.hpp"

namespace outrigger::fabric::dpu {
NodeMemory::View RankReductions::Memory::view(const MemoryRef& memory, std::uint64_t bytes) {
  if (memory.owner != kOwnMemory) return ranks_.view(memory, bytes);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of this process
  return View{MoveStatus::ok, reinterpret_cast<std::byte*>(memory.address), nullptr};
}

void RankReductions::begin(ReduceRanges ranges, std::uint64_t bytes, MoveCompletion& completion) {
  if (bytes == 0 || ranges.operands.size() < 2) std::abort();  // broken contract: a bug
  const std::uint64_t id = next_id_++;
  started_.emplace(id, Started{std::move(ranges), bytes, &completion});
  begin_chunks(id);
}

// UCX cannot cancel reads and writes, so this waits for them.
void RankReductions::cancel(const MoveCompletion& completion) {
  finished_.forget(completion);
  const auto found =
      std::ranges::find_if(started_, [&](const auto& item) { return item.second.completion == &completion; });
  if (found == started_.end()) return;
  const std::uint64_t id = found->first;
  found->second.completion = nullptr;
  found->second.status = MoveStatus::owner_lost;
  const Clock::time_point deadline = Clock::now() + kLandingTime;
  while (started_.contains(id) && Clock::now() < deadline) (void)ranks_.progress_memory();
}

RankReductions::Started* RankReductions::find(std::uint64_t id) {
  const auto found = started_.find(id);
  return found == started_.end() ? nullptr : &found->second;
}

// Chunk size of the result: chunks of all operands fit at once, except in jobs with thousands of ranks.
std::uint64_t RankReductions::chunk_bytes(const Started& started) {
  constexpr std::uint64_t kLeastBytes = 512;
  const std::uint64_t element = started.ranges.reduction.element_bytes();
  const std::uint64_t share = std::max(kLeastBytes, kRoomBytes / started.ranges.operands.size());
  return std::min(share / element * element, started.bytes - started.begun_bytes);
}

// Counts one extra, so that a chunk that ends at once does not end the whole reduction.
void RankReductions::begin_chunks(std::uint64_t id) {
  Started* started = find(id);
  if (started == nullptr) return;
  ++started->open_chunks;
  while (started->status == MoveStatus::ok && started->begun_bytes < started->bytes &&
         started->open_chunks <= kChunks) {
    begin_chunk(id, *started);
  }
  --started->open_chunks;
  if (started->open_chunks != 0) return;
  if (started->completion != nullptr) {
    finished_.add(*started->completion, MoveOutcome{started->status, Reach::rdma});
  }
  started_.erase(id);
}

void RankReductions::begin_chunk(std::uint64_t id, Started& started) {
  const std::uint64_t offset = started.begun_bytes;
  const std::uint64_t bytes = chunk_bytes(started);
  started.begun_bytes += bytes;
  ++started.open_chunks;
  std::vector<MemoryRef> operands;
  operands.reserve(started.ranges.operands.size());
  for (const MemoryRef& operand : started.ranges.operands) operands.push_back(operand.at(offset));
  const std::uint64_t places = std::clamp<std::uint64_t>(kRoomBytes / bytes, 2, operands.size());
  const auto room = std::make_shared<std::vector<std::byte>>(places * bytes);
  const auto done = [this, id, offset, bytes, room](MoveStatus status) {
    if (status != MoveStatus::ok) return chunk_ended(id, status);
    reduced(id, offset, bytes, room);
  };
  ucx::RemoteReduction::start(memory_, started.ranges.reduction, std::move(operands), *room, bytes, done);
}

void RankReductions::reduced(std::uint64_t id, std::uint64_t offset, std::uint64_t bytes,
                             const std::shared_ptr<std::vector<std::byte>>& room) {
  const Started* started = find(id);
  if (started == nullptr || started->completion == nullptr) return chunk_ended(id, MoveStatus::owner_lost);
  const auto written = [this, id, room](MoveStatus status) { chunk_ended(id, status); };
  ranks_.start_write(started->ranges.into.at(offset), std::span(*room).first(bytes), written);
}

void RankReductions::chunk_ended(std::uint64_t id, MoveStatus status) {
  Started* started = find(id);
  if (started == nullptr) return;
  assert(started->open_chunks != 0 && "every chunk ends once");
  --started->open_chunks;
  if (started->status == MoveStatus::ok) started->status = status;
  begin_chunks(id);
}

}  // namespace outrigger::fabric::dpu
