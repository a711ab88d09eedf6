// The fabric with a note of each move and each operation that ends: only where there is to be a trace. The engine,
// which has no clock, does not know of it.
//
// Thread rule: one thread.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <unordered_map>

#include "fabric/fabric.hpp"
#include "service/loop/trace_log.hpp"
#include "trace/event.hpp"

namespace outrigger::service {

class TracingFabric final : public fabric::Fabric {
 public:
  // Both must outlive this.
  TracingFabric(fabric::Fabric& inner, TraceLog& log) : inner_(inner), log_(log) {}

  void move(const Block& from, const Block& to, fabric::MoveCompletion& completion) override;
  void reduce(const Reduction& reduction, std::span<const Block> operands, const Block& into,
              fabric::MoveCompletion& completion) override;
  void cancel(fabric::MoveCompletion& completion) override;
  void send_eager(const BlockId& id, const Block& from, SpId reader) override { inner_.send_eager(id, from, reader); }
  void withdraw_eager(const BlockId& id) override { inner_.withdraw_eager(id); }
  void move_block(const BlockId& id, SpId source, const Block& from, const Block& to,
                  fabric::MoveCompletion& completion) override;
  void reduce_blocks(std::span<const BlockId> names, const Reduction& reduction, std::span<const Block> operands,
                     const Block& into, fabric::MoveCompletion& completion) override;
  void forget_eager(const BlockId& id, SpId source) override { inner_.forget_eager(id, source); }
  void send(SpId to, std::span<const std::byte> message) override { inner_.send(to, message); }
  void mark_delivered(WorldRank destination, SlotIndex slot, GroupRank source) override {
    inner_.mark_delivered(destination, slot, source);
  }
  [[nodiscard]] std::optional<std::uint64_t> hold_calls(WorldRank rank, const GroupId& group) override {
    return inner_.hold_calls(rank, group);
  }
  void resume_calls(WorldRank rank, const GroupId& group, const CoursePlan* plan) override {
    inner_.resume_calls(rank, group, plan);
  }
  void filled(WorldRank rank, SlotIndex slot, const fabric::CompletionRecord& record) override {
    inner_.filled(rank, slot, record);
  }
  void complete(WorldRank rank, SlotIndex slot, const fabric::CompletionRecord& record) override;

 private:
  // Stands between a move and who waits for it.
  class Traced final : public fabric::MoveCompletion {
   public:
    Traced(TracingFabric& owner, fabric::MoveCompletion& waiter, const trace::Event& event, WorldRank from,
           WorldRank to)
        : owner_(owner), waiter_(waiter), event_(event), from_(from), to_(to) {}
    void moved(const fabric::MoveOutcome& outcome) override;

   private:
    TracingFabric& owner_;
    fabric::MoveCompletion& waiter_;
    trace::Event event_;
    WorldRank from_;
    WorldRank to_;
  };
  [[nodiscard]] Traced& begin(const Block& from, const Block& to, const BlockId* id, fabric::MoveCompletion& waiter);
  [[nodiscard]] Traced& begin_reduce(std::span<const BlockId> names, std::span<const Block> operands, const Block& into,
                                     fabric::MoveCompletion& waiter);
  [[nodiscard]] Traced& keep(fabric::MoveCompletion& waiter, const trace::Event& event, WorldRank from, WorldRank to);

  fabric::Fabric& inner_;
  TraceLog& log_;
  std::unordered_map<fabric::MoveCompletion*, std::unique_ptr<Traced>> under_way_;
};

}  // namespace outrigger::service
