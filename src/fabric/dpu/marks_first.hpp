// Delays messages and completions until all earlier delivered marks are in the ranks' memory. Otherwise a replacement
// process could request a block whose source has been released. Nothing waits if no mark is in flight.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <variant>
#include <vector>

#include "fabric/dpu/delivered_marks.hpp"
#include "fabric/peer_messenger.hpp"
#include "fabric/rank_view.hpp"

namespace outrigger::fabric::dpu {

class MarksFirst final : public PeerMessenger, public RankView {
 public:
  // `messenger` and `ranks` get the delayed calls. `ranks` adds delivered marks to `marks`. All must outlive this.
  MarksFirst(PeerMessenger& messenger, RankView& ranks, const DeliveredMarks& marks)
      : messenger_(messenger), ranks_(ranks), marks_(marks) {}

  // Performs the calls that need not wait any more.
  void let_go();

  void send(SpId to, std::span<const std::byte> message) override;
  void mark_block(WorldRank destination, SlotIndex slot, GroupRank source, BlockMark mark) override {
    ranks_.mark_block(destination, slot, source, mark);
  }
  // Hint ignored: it would have to wait, too.
  void filled(WorldRank /*rank*/, SlotIndex /*slot*/, const CompletionRecord& /*record*/) override {}
  [[nodiscard]] bool has_passed(WorldRank rank, const OperationId& operation, std::uint32_t native_calls) override {
    return ranks_.has_passed(rank, operation, native_calls);
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
    std::uint64_t marks;  // must be in place up to this number
    std::variant<Message, Completion> what;
  };
  [[nodiscard]] bool may_pass() const { return waiting_.empty() && marks_.all_in_place(); }
  void tell(const Message& message) { messenger_.send(message.to, message.bytes); }
  void tell(const Completion& completion) { ranks_.complete(completion.rank, completion.slot, completion.record); }

  PeerMessenger& messenger_;
  RankView& ranks_;
  const DeliveredMarks& marks_;
  std::deque<Waiting> waiting_;  // in order
};

}  // namespace outrigger::fabric::dpu
