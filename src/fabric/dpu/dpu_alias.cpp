// Chunks that the network moves from one rank's memory to another's by itself.
//
// Whatever goes wrong with one is staged instead: only when that fails, too, is anything wrong with the memory.
#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "fabric/dpu/dpu_fabric.hpp"
#include "protocol/exported_memory.hpp"

namespace outrigger::fabric::dpu {

bool DpuFabric::may_alias(const Move& move) {
  const Rank* owner = find(move.to.memory.owner);
  return owner != nullptr && owner->alias && move.from.bytes >= kLeastAliasBytes;
}

void DpuFabric::choose_way(std::uint64_t id, const RemoteRangePtr& destination) {
  const auto found = moves_.find(id);
  if (found == moves_.end()) return;  // cancelled
  Move& move = found->second;
  const MemoryRef& to = move.to.memory;
  if (destination && destination->holds(to.address, move.to.bytes)) {
    move.target = imports_->use(
        {to.owner, destination->region(), destination->base(), destination->bytes(), destination->exported()});
  }
  queue(id, move);
}

void DpuFabric::start_alias_chunk(std::uint64_t id, Move& move) {
  const Chunk chunk = next_chunk(move);
  ++move.open_chunks;
  ++alias_reads_;
  if (move.has_more()) queue(id, move);
  const auto ended = [this, id, chunk, target = move.target](MoveStatus status) {
    --alias_reads_;
    alias_chunk_ended(id, chunk, status);
  };
  Rank* source = find(move.from.memory.owner);
  if (source == nullptr) return rma_.later([ended] { ended(MoveStatus::owner_lost); });
  MemoryRef from = move.from.memory;
  from.address += chunk.offset;
  source->remote->get_into(from, chunk.bytes, move.target->get(), move.to.memory.address + chunk.offset, ended);
}

void DpuFabric::alias_chunk_ended(std::uint64_t id, const Chunk& chunk, MoveStatus status) {
  const auto found = moves_.find(id);
  if (found == moves_.end()) return;
  Move& move = found->second;
  if (status == MoveStatus::ok) move.aliased = true;
  const bool wanted = move.completion != nullptr && move.status == MoveStatus::ok;
  if (status == MoveStatus::ok || !wanted) return chunk_ended(id, status);
  imports_->refuse(move.to.memory.owner, move.to.memory.region);
  unqueue(id, move);
  move.target.reset();
  move.refused.push_back(chunk);
  --move.open_chunks;
  queue(id, move);
}

void DpuFabric::read_after(std::uint64_t id, Move& move) {
  move.aliased = false;
  ++move.open_chunks;
  using Word = std::array<std::byte, sizeof(std::uint64_t)>;
  static_assert(sizeof(Word) <= kLeastAliasBytes);
  auto word = std::make_shared<Word>();
  MemoryRef last = move.to.memory;
  last.address += move.to.bytes - sizeof(Word);
  start_read(last, *word, [this, id, word](MoveStatus status) { chunk_ended(id, status); });
}

}  // namespace outrigger::fabric::dpu
