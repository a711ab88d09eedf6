// A few engines in one thread with real bytes and no delays, driven step by step, for tests of single situations.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "fabric/sim/bare_fabric.hpp"
#include "protocol/native_calls.hpp"
#include "protocol/wire/peer_messages.hpp"

namespace outrigger::engine::testing {

class Cluster;

class ClusterFabric final : public fabric::sim::BareFabric {
 public:
  ClusterFabric(Cluster& cluster, SpId self) : cluster_(cluster), self_(self) {}
  void move(const Block& from, const Block& to, const BlockId* name, fabric::MoveCompletion& completion) override;
  void reduce(const Reduction& reduction, std::span<const Block> operands, std::span<const BlockId> names,
              const Block& into, fabric::MoveCompletion& completion) override;
  void cancel(fabric::MoveCompletion& completion) override;
  void send_eager(const BlockId& id, const Block& /*from*/, SpId /*reader*/) override { eager.push_back(id); }
  void withdraw_eager(const BlockId& id) override { withdrawn.push_back(id); }
  void send(SpId to, std::span<const std::byte> message) override;
  void mark_block(WorldRank destination, SlotIndex slot, GroupRank source, BlockMark mark) override;
  void filled(WorldRank rank, SlotIndex /*slot*/, const fabric::CompletionRecord& /*record*/) override {
    told_filled.push_back(rank);
  }
  void complete(WorldRank rank, SlotIndex slot, const fabric::CompletionRecord& record) override;
  [[nodiscard]] bool has_passed(WorldRank rank, const OperationId& operation, std::uint32_t native_calls) override;

  struct MoveInFlight {
    Block from;
    Block to;
    fabric::MoveCompletion* completion;
    // Reductions only; `from` is the first operand.
    std::optional<Reduction> reduction;
    std::vector<Block> others;
  };
  std::deque<MoveInFlight> moves;
  std::vector<WorldRank> told_filled;
  std::vector<BlockId> eager;  // blocks given to send_eager(); none is sent
  std::vector<BlockId> withdrawn;

 private:
  Cluster& cluster_;
  SpId self_;
};

// One rank's buffers for one operation; addresses are real.
struct Buffers {
  std::vector<std::byte> send;
  std::vector<std::byte> receive;
};

class Cluster {
 public:
  explicit Cluster(std::vector<std::uint32_t> sp_of_rank, EngineLimits limits = {}, const Registry* registry = nullptr,
                   std::vector<std::uint32_t> node_of_sp = {});

  [[nodiscard]] Engine& engine(std::uint32_t sp) { return *services_[sp].engine; }
  [[nodiscard]] ClusterFabric& fabric(std::uint32_t sp) { return *services_[sp].fabric; }
  [[nodiscard]] std::size_t services() const { return services_.size(); }

  // A regular operation of `bytes` a block on all ranks; the caller may change it before the post.
  [[nodiscard]] PostedOperation operation(std::uint32_t rank, std::uint64_t sequence, std::uint64_t bytes,
                                          Algorithm algorithm);
  // The same buffers for an allgather: the first block is sent to all ranks.
  [[nodiscard]] PostedOperation gather(std::uint32_t rank, std::uint64_t sequence, std::uint64_t bytes,
                                       Algorithm algorithm);
  // The same for a broadcast: the root's first block, into each rank's own place for it.
  [[nodiscard]] PostedOperation bcast(std::uint32_t rank, std::uint64_t sequence, std::uint64_t bytes,
                                      std::uint32_t root, Algorithm algorithm);
  // The same for a gather, with blocks for the root into its places for them, or a scatter of the root's blocks.
  [[nodiscard]] PostedOperation to_root(std::uint32_t rank, std::uint64_t sequence, std::uint64_t bytes,
                                        std::uint32_t root);
  [[nodiscard]] PostedOperation from_root(std::uint32_t rank, std::uint64_t sequence, std::uint64_t bytes,
                                          std::uint32_t root);
  // The same between neighbors: a block for each destination, one from each source.
  [[nodiscard]] PostedOperation between_neighbors(std::uint32_t rank, std::uint64_t sequence, std::uint64_t bytes,
                                                  const std::vector<std::uint32_t>& destinations,
                                                  const std::vector<std::uint32_t>& sources);
  // A barrier, for which there are no buffers.
  [[nodiscard]] PostedOperation barrier(std::uint32_t rank, std::uint64_t sequence);
  // The same for an allreduce: the first block is the rank's contribution, floats whose sums are rounded.
  [[nodiscard]] PostedOperation allreduce(std::uint32_t rank, std::uint64_t sequence, std::uint64_t bytes,
                                          const Reduction& reduction = {ReduceOperation::sum, ElementType::float32},
                                          Algorithm algorithm = Algorithm::sliced_pull);
  // The same for a reduction to one rank, and for a reduce_scatter with blocks of `bytes`.
  [[nodiscard]] PostedOperation reduce(std::uint32_t rank, std::uint64_t sequence, std::uint64_t bytes,
                                       std::uint32_t root);
  [[nodiscard]] PostedOperation reduce_scatter(std::uint32_t rank, std::uint64_t sequence, std::uint64_t block_bytes);
  // The same for blocks of these lengths.
  [[nodiscard]] PostedOperation reduce_scatter(std::uint32_t rank, std::uint64_t sequence,
                                               const std::vector<std::uint64_t>& blocks);
  // The same for a scan or an exscan.
  [[nodiscard]] PostedOperation prefix(std::uint32_t rank, std::uint64_t sequence, std::uint64_t bytes,
                                       Collective collective);
  void post(PostedOperation operation);

  // Runs engines, moves and messages until nothing is left to do. Moves stop if `hold_moves`.
  void settle();
  bool hold_moves = false;
  // Ends one move of a service process, although moves are held. False: it has none.
  bool finish_move(std::uint32_t sp);
  bool hold_messages = false;
  // For each rank, as in its segment.
  std::map<std::uint32_t, NativeCalls> native_calls;
  // Fails the moves whose source is this rank.
  std::optional<WorldRank> faulty_source;

  // A new incarnation without state.
  void restart(std::uint32_t sp);

  struct Completion {
    std::uint32_t count = 0;
    fabric::CompletionRecord record;
  };
  [[nodiscard]] const Completion& completion(std::uint32_t rank, std::uint64_t sequence);
  [[nodiscard]] bool completed(std::uint32_t rank, std::uint64_t sequence) {
    return completion(rank, sequence).count == 1;
  }
  [[nodiscard]] bool all_completed(std::uint64_t sequence);
  [[nodiscard]] bool bytes_right(std::uint32_t rank, std::uint64_t sequence, std::uint64_t bytes);
  // True if the result equals a sum in the order of ranks, bit by bit.
  [[nodiscard]] bool summed_right(std::uint32_t rank, std::uint64_t sequence, std::uint64_t bytes) {
    return summed_right(rank, sequence, 0, bytes);
  }
  // The same for the result's part from `offset` on.
  [[nodiscard]] bool summed_right(std::uint32_t rank, std::uint64_t sequence, std::uint64_t offset,
                                  std::uint64_t bytes) {
    return summed_right(rank, sequence, offset, bytes, static_cast<std::uint32_t>(ranks()));
  }
  // The same for the first `sources` ranks.
  [[nodiscard]] bool summed_right(std::uint32_t rank, std::uint64_t sequence, std::uint64_t offset, std::uint64_t bytes,
                                  std::uint32_t sources);
  [[nodiscard]] bool gathered_right(std::uint32_t rank, std::uint64_t sequence, std::uint64_t bytes);
  // Moves between nodes.
  [[nodiscard]] std::uint32_t node_of(WorldRank rank) const { return node_of_sp_[sp_of_rank_[rank.value()].value()]; }
  std::uint64_t moves_between_nodes = 0;
  std::uint64_t reductions_done = 0;
  std::uint64_t reductions_between_nodes = 0;                // by their left operands, as moves are counted
  std::map<std::uint32_t, std::uint64_t> contributed_bytes;  // read by reductions from a rank's send buffer
  [[nodiscard]] std::uint64_t moves_from(std::uint32_t rank) { return moves_from_[rank]; }
  [[nodiscard]] Buffers& buffers(std::uint32_t rank, std::uint64_t sequence) { return buffers_[{rank, sequence}]; }
  [[nodiscard]] bool marked(std::uint32_t rank, std::uint64_t sequence, std::uint32_t source) {
    return mark(rank, sequence, source) == static_cast<std::uint8_t>(BlockMark::delivered);
  }
  // As in the rank's memory.
  [[nodiscard]] std::uint8_t mark(std::uint32_t rank, std::uint64_t sequence, std::uint32_t source) {
    return static_cast<std::uint8_t>(marks_[{rank, sequence}][source]);
  }
  [[nodiscard]] std::size_t ranks() const { return sp_of_rank_.size(); }
  [[nodiscard]] bool idle();
  [[nodiscard]] std::optional<std::string> broken();
  [[nodiscard]] static std::byte pattern(std::uint32_t source, std::uint32_t destination, std::uint64_t index);

  struct Letter {
    SpId from;
    SpId to;
    std::vector<std::byte> message;
  };
  std::deque<Letter> letters;
  std::uint64_t messages_sent = 0;
  std::uint64_t moves_done = 0;
  std::size_t most_moves_in_flight = 0;

 private:
  friend class ClusterFabric;
  struct Service {
    std::unique_ptr<ClusterFabric> fabric;
    std::unique_ptr<Engine> engine;
    std::uint32_t epoch = 1;
  };
  void start(std::uint32_t sp);
  bool deliver_one();
  bool move_one(Service& service);
  void reduce_now(const ClusterFabric::MoveInFlight& move);

  std::vector<SpId> sp_of_rank_;
  std::vector<std::uint32_t> node_of_sp_;
  EngineLimits limits_;
  const Registry* registry_;
  std::shared_ptr<const std::vector<WorldRank>> members_;
  std::vector<Service> services_;
  using Key = std::pair<std::uint32_t, std::uint64_t>;
  std::map<Key, Buffers> buffers_;
  std::map<std::uint32_t, std::uint64_t> moves_from_;  // by source
  std::map<Key, Completion> completions_;
  std::map<Key, std::map<std::uint32_t, BlockMark>> marks_;  // by source
};

}  // namespace outrigger::engine::testing
