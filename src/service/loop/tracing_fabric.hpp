// Records each move and each completed operation, as wrappers of the engine's mover and rank view. Used only with a
// trace, so that the engine needs no clock.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "fabric/block_mover.hpp"
#include "fabric/rank_view.hpp"
#include "service/loop/trace_log.hpp"
#include "trace/event.hpp"

namespace outrigger::service {

class TracingFabric final : public fabric::BlockMover, public fabric::RankView {
 public:
  // All must outlive this.
  TracingFabric(fabric::BlockMover& mover, fabric::RankView& ranks, TraceLog& log)
      : mover_(mover), ranks_(ranks), log_(log) {}

  void move(const Block& from, const Block& to, const BlockId* name, fabric::MoveCompletion& completion) override;
  void reduce(const Reduction& reduction, std::span<const Block> operands, std::span<const BlockId> names,
              const Block& into, fabric::MoveCompletion& completion) override;
  void cancel(fabric::MoveCompletion& completion) override;
  void send_eager(const BlockId& name, const Block& from, SpId reader) override {
    mover_.send_eager(name, from, reader);
  }
  void withdraw_eager(const BlockId& name) override { mover_.withdraw_eager(name); }
  void forget_eager(const BlockId& name, SpId source) override { mover_.forget_eager(name, source); }
  void mark_block(WorldRank destination, SlotIndex slot, GroupRank source, BlockMark mark) override {
    ranks_.mark_block(destination, slot, source, mark);
  }
  [[nodiscard]] bool has_passed(WorldRank rank, const OperationId& operation, std::uint32_t native_calls) override {
    return ranks_.has_passed(rank, operation, native_calls);
  }
  void filled(WorldRank rank, SlotIndex slot, const fabric::CompletionRecord& record) override {
    ranks_.filled(rank, slot, record);
  }
  void complete(WorldRank rank, SlotIndex slot, const fabric::CompletionRecord& record) override;

 private:
  // Stands between a move and its waiter. Reused for later moves.
  class Traced final : public fabric::MoveCompletion {
   public:
    explicit Traced(TracingFabric& owner) : owner_(owner) {}
    void moved(const fabric::MoveOutcome& outcome) override;

    fabric::MoveCompletion* waiter = nullptr;
    trace::Event event;
    WorldRank from;
    WorldRank to;
    std::size_t place = 0;  // index in all_

   private:
    TracingFabric& owner_;
  };
  [[nodiscard]] Traced& begin(const Block& from, const Block& to, const BlockId* name, fabric::MoveCompletion& waiter);
  [[nodiscard]] Traced& begin_reduce(std::span<const Block> operands, std::span<const BlockId> names, const Block& into,
                                     fabric::MoveCompletion& waiter);
  // An active one with a blank event.
  [[nodiscard]] Traced& keep(fabric::MoveCompletion& waiter, WorldRank from, WorldRank to);
  void end(Traced& traced);

  fabric::BlockMover& mover_;
  fabric::RankView& ranks_;
  TraceLog& log_;
  // First the active ones, at most as many as moves may be, then the reusable ones.
  std::vector<std::unique_ptr<Traced>> all_;
  std::size_t under_way_ = 0;
};

}  // namespace outrigger::service
