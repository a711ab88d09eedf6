// A service process in virtual time: the real engine, on a core that needs time for everything it takes in hand.
//
// Its loop is that of outriggerd: take what has come, run the engine, say to each peer what there is to say in one
// message, then some of the copying. What the engine asks for in a turn begins when the core has come to it. Costs
// delay what happens; nothing of the engine ever sees one.
//
// How a block moves:
//     within a node, on a host core   the core copies it, or the rank that waits for it
//     ... on a DPU                    the card moves it, directly or through the DPU's memory
//     between nodes, by memory        the card moves it, when the destination's side (pull) or the source's (push) asks
//     ... by processors               the source's core sends it by chunks, the destination's takes each; before it is
//                                     asked to, as much as there is room for
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/engine.hpp"
#include "fabric/seams.hpp"
#include "sim/model/core_copy.hpp"
#include "sim/model/machine.hpp"

namespace outrigger::sim::model {

class Service;

// What a service process says to another one in one turn.
struct Batch {
  SpId from;
  SpId to;
  std::vector<std::vector<std::byte>> messages;
  std::uint64_t bytes = 0;
};

// What services have to do with beside the machine.
class ServiceWorld {
 public:
  virtual Service& service(SpId id) = 0;
  // It has come to where `to` is.
  virtual void hear(const std::shared_ptr<const Batch>& batch) = 0;
  // A service process has asked for a rank's block on another node.
  virtual void asked_for_block() {}
  // A rank has been told that the operation of that slot is over.
  virtual void completed(WorldRank rank, SlotIndex slot, bool ok) = 0;
  // Has `rank` copy for itself, while it waits: its core is busy with it, after what it has to copy already. `left`: it
  // has not, and the service process has to. False: that is known at once.
  virtual bool copy_by_rank(WorldRank rank, std::uint64_t bytes, std::function<void()> done,
                            std::function<void()> left) = 0;

 protected:
  ~ServiceWorld() = default;
};

class Service final : public fabric::BlockMover, public fabric::PeerMessenger, public fabric::RankView {
 public:
  Service(Machine& machine, ServiceWorld& world, const engine::EngineConfig& config);
  ~Service();

  // What a rank has put into its memory is here now.
  void post(engine::PostedOperation operation);
  void hear(const std::shared_ptr<const Batch>& batch);

  void move(const Block& from, const Block& to, const BlockId* name, fabric::MoveCompletion& completion) override;
  void reduce(const Reduction& reduction, std::span<const Block> operands, std::span<const BlockId> names,
              const Block& into, fabric::MoveCompletion& completion) override;
  void cancel(fabric::MoveCompletion& completion) override;
  void send_eager(const BlockId& name, const Block& from, SpId reader) override;
  void withdraw_eager(const BlockId& name) override;
  void forget_eager(const BlockId& name, SpId source) override;
  void send(SpId to, std::span<const std::byte> message) override;
  void mark_delivered(WorldRank destination, SlotIndex slot, GroupRank source) override;
  void complete(WorldRank rank, SlotIndex slot, const fabric::CompletionRecord& record) override;
  // The model's ranks wait for complete().
  void filled(WorldRank /*rank*/, SlotIndex /*slot*/, const fabric::CompletionRecord& /*record*/) override {}
  [[nodiscard]] bool has_passed(WorldRank /*rank*/, const OperationId& /*operation*/,
                                std::uint32_t /*native_calls*/) override {
    return false;
  }

  [[nodiscard]] const engine::Engine& engine() const { return *engine_; }

 private:
  class Transfer;
  // Work for the core beside the engine.
  enum class Part : std::uint8_t { copy, relay, socket_out, socket_in, reduce };
  struct Chore {
    Transfer* transfer;
    Part part;
    std::uint64_t bytes;
  };

  // Something has come that costs so much to take in hand.
  void take(std::uint64_t cost_ns, std::function<void()> what);
  void wake();
  void turn();
  void do_chore();
  [[nodiscard]] std::uint64_t chore_ns(Part part, std::uint64_t bytes) const;
  void end_turn();
  void say_everything();
  void ended(Transfer& transfer);
  Transfer& begin(const Block& from, const Block& to, fabric::MoveCompletion* completion);
  void add_part(Transfer& whole, std::unique_ptr<Transfer> part);
  std::uint64_t take_eager(const BlockId& id, Transfer& whole);
  [[nodiscard]] std::uint64_t control_ns_to(const Service& peer) const;

  Machine& machine_;
  ServiceWorld& world_;
  const ServiceModel& costs_;
  SpId self_;
  Place place_;
  Processor& processor_;
  ProcessId process_;
  CpuBurst burst_;  // of this turn
  CoreCopy copy_;
  std::unique_ptr<engine::Engine> engine_;
  struct Event {
    std::uint64_t cost_ns;
    std::function<void()> what;
  };
  std::deque<Event> inbox_;
  std::deque<Chore> chores_;
  std::vector<Batch> batches_;                        // of this turn
  std::unordered_map<SpId, std::uint64_t> arrivals_;  // by peer: when the last batch to it is there
  std::unordered_map<fabric::MoveCompletion*, std::unique_ptr<Transfer>> transfers_;
  std::unordered_map<BlockId, std::unique_ptr<Transfer>> eager_;  // from peers, and not asked for yet
  struct SentEagerly {
    SpId reader;
    std::uint64_t bytes;
  };
  std::unordered_map<BlockId, SentEagerly> sent_eagerly_;
  std::unordered_map<SpId, std::uint64_t> eager_room_bytes_;  // at peers
  bool busy_ = false;                                         // a turn is scheduled, or the core copies
};

}  // namespace outrigger::sim::model
