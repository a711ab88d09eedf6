// Reductions with blocks of other nodes: these are pulled into buffers of this process, a batch of them at the same
// time, and when all of a batch are here they are reduced into the rank's memory, in the operands' order, and the next
// batch is pulled. Those of one service process come as one block that has been reduced there, where the order makes no
// difference to any bit. The buffers hold what can be pulled again, so that nothing here has to outlive the process.
// Where this node's ranks are on another machine, the node's fabric reduces a batch.
//
// Thread rule: one thread. Completions are delivered from the wire's progress(), or that of the node's fabric, only.
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
  // Of the buffers of one reduction; two of them at least.
  static constexpr std::uint64_t kBatchBytes = std::uint64_t{1} << 20;

  // Both must outlive this.
  StagedReductions(Wire& wire, BlockMover& node) : wire_(wire), node_(node), reducer_(wire.memory()) {}

  // An operand and the service process of another node that reads it, or nothing: it is here.
  struct Operand {
    Block block;
    std::optional<SpId> from = std::nullopt;
    std::optional<BlockId> name = std::nullopt;  // by which some of it may have been sent eagerly
    std::vector<MemoryRef> others = {};          // of the same service process, which reduces them after `block`
  };
  // One of them at least comes from another node.
  void start(const Reduction& reduction, std::vector<Operand> operands, const Block& into, MoveCompletion& completion);
  void cancel(const MoveCompletion& completion);
  [[nodiscard]] std::size_t in_flight() const { return started_.size(); }

 private:
  struct Started;
  // Into a buffer.
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
  // Of a batch, by the node's fabric.
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
    std::size_t batch_end = 0;  // of `operands`: those before it are reduced, or in the batch
    Block into;
    MoveCompletion* completion = nullptr;
    ReduceRanges batch;  // what `into` has so far, and those that come next
    std::list<Pull> pulls;
    std::optional<Reduced> reduced;
    std::size_t under_way = 0;
    MoveStatus status = MoveStatus::ok;
    std::list<Started>::iterator self;
  };

  // Operands of one service process become one.
  [[nodiscard]] static std::vector<Operand> joined(const std::vector<Operand>& operands);
  void pull(const Started& started, const Operand& operand, Pull& pull);
  void pull_batch(Started& started);
  // All of a batch are here, or it has failed.
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
