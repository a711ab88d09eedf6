#include "fabric/host/host_fabric.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace outrigger::fabric {
namespace {

HostFabricOptions checked(HostFabricOptions options) {
  options.chunk_bytes = std::max<std::uint64_t>(options.chunk_bytes, 4096);
  options.progress_chunks = std::max<std::uint32_t>(options.progress_chunks, 1);
  return options;
}

}  // namespace

HostFabric::HostFabric(const HostFabricOptions& options)
    : HostMemory(ranks_),
      options_(checked(options)),
      copies_(ranks_, moves_),
      lending_(options_.lending, options_.chunk_bytes, ranks_, moves_, copies_.queue()),
      slots_(ranks_),
      rings_(options_.waiting_messages) {}

void HostFabric::add_rank(WorldRank rank, RankMemory memory) {
  ranks_.add(rank, std::move(memory));
  slots_.add_rank(rank);
}

void HostFabric::drop_rank(WorldRank rank) {
  lending_.drop_rank(rank);
  slots_.drop_rank(rank);
  ranks_.remove(rank);
  complete_deferred();
}

bool HostFabric::progress() {
  bool worked = slots_.tell_filled();
  if (lending_.busy() || lending_.may_share()) {
    worked |= take_in();
    worked |= moves_.deliver_ended();
    worked |= lending_.lend_out();
  }
  worked |= copies_.copy_some({options_.chunk_bytes, options_.progress_bytes, options_.progress_chunks});
  worked |= reductions_.reduce_some(options_.progress_bytes);
  if (lending_.busy()) {
    lending_.lend_core();
    worked |= take_in();
  }
  worked |= moves_.deliver_ended();
  worked |= reductions_.deliver_ended();
  return worked;
}

bool HostFabric::take_in() {
  const bool any = lending_.take_in();
  complete_deferred();
  return any;
}

bool HostFabric::arm() {
  if (slots_.any_to_tell() || reductions_.in_flight() != 0) return false;
  if (!lending_.by_ranks_alone()) return moves_in_flight() == 0;
  return copies_.queue().empty() && !moves_.any_ended() && !lending_.anything_to_do();
}

void HostFabric::move(const Block& from, const Block& to, const BlockId* /*name*/, MoveCompletion& completion) {
  HostMove& move = moves_.start(from, to, completion);
  lending_.queue(Chunk{&move, to.memory.owner, 0, from.bytes});
}

void HostFabric::reduce(const Reduction& reduction, std::span<const Block> operands, std::span<const BlockId> /*names*/,
                        const Block& into, MoveCompletion& completion) {
  assert(operands.size() >= 2 && into.bytes != 0 && into.bytes % reduction.element_bytes() == 0 &&
         "a reduction has whole elements");
  ReduceRanges ranges{reduction, {}, into.memory};
  ranges.operands.reserve(operands.size());
  for (const Block& operand : operands) {
    assert(operand.bytes == into.bytes && "operands and result of a reduction have the same length");
    ranges.operands.push_back(operand.memory);
  }
  reductions_.start(std::move(ranges), into.bytes, completion);
}

void HostFabric::cancel(MoveCompletion& completion) {
  reductions_.forget(completion);
  HostMove* move = moves_.forget(completion);
  if (move == nullptr) return;
  if (move->lent != 0) lending_.recall(*move);
  moves_.retire(*move);
}

void HostFabric::mark_block(WorldRank destination, SlotIndex slot, GroupRank source, BlockMark mark) {
  slots_.mark_block(destination, slot, source, mark);
}

void HostFabric::filled(WorldRank rank, SlotIndex slot, const CompletionRecord& record) {
  if (!lending_.writes_late_to(rank)) slots_.fill(rank, slot, record);
}

void HostFabric::complete(WorldRank rank, SlotIndex slot, const CompletionRecord& record) {
  if (lending_.writes_late_to(rank)) return slots_.defer({rank, slot, record});
  slots_.complete(rank, slot, record);
}

bool HostFabric::has_passed(WorldRank rank, const OperationId& operation, std::uint32_t native_calls) {
  RankMemory* memory = ranks_.find(rank);
  if (memory == nullptr) return false;
  for (std::uint32_t i = 0; i < kNativeCallsEntries; ++i) {
    if (memory->segment().native_calls(i).has_passed(operation, native_calls)) return true;
  }
  return false;
}

void HostFabric::complete_deferred() {
  if (slots_.deferred() == 0) return;
  for (const Slots::Deferred& deferred : slots_.take_deferred()) {
    complete(deferred.rank, deferred.slot, deferred.record);  // or defers it again
  }
}

}  // namespace outrigger::fabric
