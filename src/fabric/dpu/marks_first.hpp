// What a service process on a DPU tells others, and its ranks, waits until the marks of what has been delivered before
// are in the ranks' memory: whoever takes its place must not have a block delivered again whose source has been
// released. Where no mark is on its way, nothing waits.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "fabric/dpu/delivered_marks.hpp"
#include "fabric/fabric.hpp"

namespace outrigger::fabric::dpu {

class MarksFirst final : public Fabric {
 public:
  // `inner`: what is done then, and from where marks come to `marks`. Both must outlive this.
  MarksFirst(Fabric& inner, const DeliveredMarks& marks) : inner_(inner), marks_(marks) {}

  // Does what need not wait any more.
  void let_go();

  void move(const Block& from, const Block& to, const BlockId* name, MoveCompletion& completion) override {
    inner_.move(from, to, name, completion);
  }
  void reduce(const Reduction& reduction, std::span<const Block> operands, std::span<const BlockId> names,
              const Block& into, MoveCompletion& completion) override {
    inner_.reduce(reduction, operands, names, into, completion);
  }
  void cancel(MoveCompletion& completion) override { inner_.cancel(completion); }
  void send_eager(const BlockId& id, const Block& from, SpId reader) override { inner_.send_eager(id, from, reader); }
  void withdraw_eager(const BlockId& id) override { inner_.withdraw_eager(id); }
  void forget_eager(const BlockId& id, SpId source) override { inner_.forget_eager(id, source); }
  void send(SpId to, std::span<const std::byte> message) override;
  void mark_delivered(WorldRank destination, SlotIndex slot, GroupRank source) override {
    inner_.mark_delivered(destination, slot, source);
  }
  [[nodiscard]] std::optional<std::uint64_t> hold_calls(WorldRank rank, const GroupId& group) override {
    return inner_.hold_calls(rank, group);
  }
  void resume_calls(WorldRank rank, const GroupId& group, const CoursePlan* plan) override {
    inner_.resume_calls(rank, group, plan);
  }
  [[nodiscard]] bool has_passed(WorldRank rank, const OperationId& operation, std::uint32_t native_calls) override {
    return inner_.has_passed(rank, operation, native_calls);
  }
  void complete(WorldRank rank, SlotIndex slot, const CompletionRecord& record) override;

 private:
  struct Message {
    SpId to;
    std::vector<std::byte> bytes;
  };
  struct Completion {
    WorldRank rank;
    SlotIndex slot;
    CompletionRecord record;
  };
  struct Waiting {
    std::uint64_t marks;  // are to be in place up to there
    std::variant<Message, Completion> what;
  };
  [[nodiscard]] bool may_pass() const { return waiting_.empty() && marks_.all_in_place(); }
  void tell(const Message& message) { inner_.send(message.to, message.bytes); }
  void tell(const Completion& completion) { inner_.complete(completion.rank, completion.slot, completion.record); }

  Fabric& inner_;
  const DeliveredMarks& marks_;
  std::deque<Waiting> waiting_;  // in order
};

}  // namespace outrigger::fabric::dpu
