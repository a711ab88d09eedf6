// The fabric within one node: ranks' memory is mapped or reached by cross-memory attach; other service processes are
// reached by rings in shared memory. Two ports: this and rings(). copy/policy.hpp chooses the lane and the copier of a
// block.
//
//   node_ranks, rank_memory, host_memory   the ranks' memory
//   moves                     moves, cut into chunks, in queues, until they have ended
//   service_copies, lanes/    copies by this process
//   reductions                reductions by this process
//   lending, core_loan        copies by ranks for this process
//   slots                     open operations, marks and completions
//   peer_rings                messages
//
// Moves are served chunk by chunk, round-robin, so a long one delays a short one by at most a chunk. Every chunk is
// translated and bounds-checked again: if a region goes away, its moves fail.
//
// Thread rule: one thread. Completions are delivered from progress() only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "fabric/block_mover.hpp"
#include "fabric/host/host_memory.hpp"
#include "fabric/host/lending.hpp"
#include "fabric/host/moves.hpp"
#include "fabric/host/node_ranks.hpp"
#include "fabric/host/peer_rings.hpp"
#include "fabric/host/reductions.hpp"
#include "fabric/host/service_copies.hpp"
#include "fabric/host/slots.hpp"
#include "fabric/node_memory.hpp"
#include "fabric/port.hpp"
#include "fabric/rank_view.hpp"

namespace outrigger::fabric {

struct HostFabricOptions {
  std::uint64_t chunk_bytes = 256U << 10;     // of one move before the next one's turn
  std::uint64_t progress_bytes = 256U << 10;  // copied by one progress(); at least one chunk
  std::uint32_t progress_chunks = 64;         // the same limit in chunks, for small ones
  LendingOptions lending;
  // Messages that wait for room in peers' rings. At the limit the caller takes no more posts until peers have read.
  // Messages that follow from earlier posts or from peers' messages are still sent.
  std::size_t waiting_messages = 16384;
};

class HostFabric final : public BlockMover, public RankView, public HostMemory, public Port {
 public:
  explicit HostFabric(const HostFabricOptions& options = {});

  // Ranks of this node. Other ranks' memory cannot be read or written.
  void add_rank(WorldRank rank, RankMemory memory);
  [[nodiscard]] RankMemory* rank(WorldRank rank) { return ranks_.find(rank); }
  // Unmaps the rank's memory; its moves end as owner_lost in the next progress().
  void drop_rank(WorldRank rank);

  // Sharing of this process's core. Call it before the first expect_copier().
  void share_core(copy::CoreShare share) { lending_.share_core(share); }
  // Size of the processor's last-level cache: larger moves bypass it. 0: unknown, none do.
  void set_cache_bytes(std::uint64_t bytes) { copies_.set_cache_bytes(bytes); }
  // The present method for mapped memory.
  [[nodiscard]] CopyKernel kernel() const { return copies_.kernel(); }
  // The rank is served by this process and may lend its threads (copy::lenders_with()).
  void expect_copier(WorldRank rank) { lending_.expect(rank); }

  // Messages to and from the other service processes of the node.
  [[nodiscard]] PeerRings& rings() { return rings_; }
  // Operations of ranks, from their posts until complete().
  [[nodiscard]] Slots& slots() { return slots_; }

  // Copies a bounded amount and delivers completions.
  bool progress() override;
  [[nodiscard]] std::size_t moves_in_flight() const {
    return moves_.in_flight() + reductions_.in_flight() + slots_.deferred();
  }
  // False: progress() has work. Otherwise waiting ranks may still hold moves; they ring when they have finished.
  [[nodiscard]] bool arm() override;
  // Time until progress() should take back chunks that ranks have not begun.
  [[nodiscard]] std::optional<Clock::duration> sleep_limit(Clock::time_point /*now*/) const override {
    return lending_.patience_left();
  }

  void move(const Block& from, const Block& to, const BlockId* name, MoveCompletion& completion) override;
  void reduce(const Reduction& reduction, std::span<const Block> operands, std::span<const BlockId> names,
              const Block& into, MoveCompletion& completion) override;
  void cancel(MoveCompletion& completion) override;
  // Hints are ignored: memory of this node is read without a request.
  void send_eager(const BlockId& /*name*/, const Block& /*from*/, SpId /*reader*/) override {}
  void withdraw_eager(const BlockId& /*name*/) override {}
  void forget_eager(const BlockId& /*name*/, SpId /*source*/) override {}
  void mark_block(WorldRank destination, SlotIndex slot, GroupRank source, BlockMark mark) override;
  void filled(WorldRank rank, SlotIndex slot, const CompletionRecord& record) override;
  void complete(WorldRank rank, SlotIndex slot, const CompletionRecord& record) override;
  [[nodiscard]] bool has_passed(WorldRank rank, const OperationId& operation, std::uint32_t native_calls) override;

 private:
  bool take_in();
  void complete_deferred();

  const HostFabricOptions options_;
  NodeRanks ranks_;
  Moves moves_;
  ServiceCopies copies_;
  Reductions reductions_{*this};
  Lending lending_;
  Slots slots_;
  PeerRings rings_;
};

}  // namespace outrigger::fabric
