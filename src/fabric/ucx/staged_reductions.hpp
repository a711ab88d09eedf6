// Reductions with blocks of other nodes. A batch of blocks is pulled concurrently into buffers of this process and then
// reduced into the rank's memory, in the operands' order; then the next batch follows. If the order does not change any
// bit, the blocks of one service process are reduced there and come as one block. The buffers can be pulled again, so
// nothing here has to outlive the process. If this node's ranks are on another machine, the node's fabric reduces a
// batch.
//
// Thread rule: one thread. Completions are delivered only from progress() of the wire or of the node's fabric.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <vector>

#include "fabric/block_mover.hpp"
#include "fabric/memory_reducer.hpp"
#include "fabric/ucx/wire.hpp"

namespace outrigger::fabric::ucx {

class StagedReductions {
 public:
  // Size of one reduction's buffers; at least two buffers.
  static constexpr std::uint64_t kBatchBytes = std::uint64_t{1} << 20;

  // Both must outlive this.
  StagedReductions(Wire& wire, BlockMover& node) : wire_(wire), node_(node), reducer_(wire.memory()) {}

  // An operand, and the service process of another node that reads it; nullopt: local.
  struct Operand {
    Block block;
    std::optional<SpId> from = std::nullopt;
    std::optional<BlockId> name = std::nullopt;  // its name if some of it may have been sent eagerly
    std::vector<MemoryRef> others = {};          // of the same service process, which reduces them after `block`
  };
  // At least one operand comes from another node.
  void start(const Reduction& reduction, std::vector<Operand> operands, const Block& into, MoveCompletion& completion);
  void cancel(const MoveCompletion& completion);
  [[nodiscard]] std::size_t in_flight() const { return started_.size(); }

 private:
  struct Started;
  // A pull into a buffer.
  class Pull final : public MoveCompletion {
   public:
    Pull(StagedReductions& all, Started& started, const MemoryRef& buffer)
        : buffer_(buffer), all_(all), started_(started) {}
    void moved(const MoveOutcome& outcome) override;
    [[nodiscard]] const MemoryRef& buffer() const { return buffer_; }
    [[nodiscard]] bool under_way() const { return under_way_; }

   private:
    const MemoryRef buffer_;
    StagedReductions& all_;
    Started& started_;
    bool under_way_ = true;
  };
  // A batch's reduction by the node's fabric.
  class Reduced final : public MoveCompletion {
   public:
    Reduced(StagedReductions& all, Started& started) : all_(all), started_(started) {}
    void moved(const MoveOutcome& outcome) override { all_.batch_reduced(started_, outcome.status); }

   private:
    StagedReductions& all_;
    Started& started_;
  };
  struct Started {
    Reduction reduction;
    std::vector<Operand> operands;
    std::size_t batch_end = 0;  // index in `operands`: those before it are reduced, or in the batch
    Block into;
    MoveCompletion* completion = nullptr;
    ReduceRanges batch;  // the present result in `into`, then the next operands
    std::list<Pull> pulls;
    std::optional<Reduced> reduced;
    std::size_t under_way = 0;
    MoveStatus status = MoveStatus::ok;
    std::list<Started>::iterator self;
  };

  // Joins the operands of each service process, but for those that may have been sent already.
  [[nodiscard]] static std::vector<Operand> joined(const std::vector<Operand>& operands);
  void pull(const Started& started, const Operand& operand, Pull& pull);
  void pull_batch(Started& started);
  // The batch is complete, or has failed.
  void end_batch(Started& started);
  void reduce_by_node(Started& started);
  void batch_reduced(Started& started, MoveStatus status);
  void give_back_buffers(Started& started);

  Wire& wire_;
  BlockMover& node_;
  MemoryReducer reducer_;
  std::list<Started> started_;
};

}  // namespace outrigger::fabric::ucx
