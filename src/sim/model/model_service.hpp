// A service process in virtual time: the real engine, on a core that takes time for everything.
//
// The loop is that of outriggerd: handle arrivals, run the engine, send one batch of messages per peer, then copy a
// little. Actions of the engine begin when the core gets to them. Costs delay events; the engine never sees them.
//
//   How a block moves:
//   within a node, on a host core   the core copies it, or a waiting rank does
//   ... on a DPU                    a waiting rank copies it, or the card moves it, if needed by the DPU's memory
//   between nodes, by memory        the card moves it, as the destination's (pull) or the source's side (push) asks
//   ... by processors               the source's core sends chunks, the destination's core receives each; before the
//                                   request, as many as there is room for
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "copy/policy.hpp"
#include "engine/engine.hpp"
#include "fabric/seams.hpp"
#include "sim/model/core_copy.hpp"
#include "sim/model/machine.hpp"

namespace outrigger::sim::model {

class Service;

// Messages of one service process to another in one turn.
struct Batch {
  SpId from;
  SpId to;
  std::vector<std::vector<std::byte>> messages;
  std::vector<BlockId> blocks;  // short ones that are sent eagerly
  std::uint64_t bytes = 0;
};

// The rest of the job, as service processes see it.
class ServiceWorld {
 public:
  virtual Service& service(SpId id) = 0;
  // The batch has arrived at its receiver.
  virtual void deliver(const std::shared_ptr<const Batch>& batch) = 0;
  // A service process has asked for a block on another node.
  virtual void asked_for_block() {}
  // A rank has been told that the operation in that slot has ended.
  virtual void completed(WorldRank rank, SlotIndex slot, bool ok) = 0;
  // Lets `rank` copy while it waits: its core is busy with it, after earlier copies. `left`: called instead of `done`
  // if it did not copy and the service process must. False: it cannot copy.
  virtual bool copy_by_rank(WorldRank rank, std::uint64_t bytes, std::function<void()> done,
                            std::function<void()> left) = 0;
  // For a service process on a DPU.
  struct Lender {
    bool waits = false;
    copy::Offer offer = copy::Offer::none;  // to copy_by_rank()
  };
  [[nodiscard]] virtual Lender lender(WorldRank rank) const = 0;

 protected:
  ~ServiceWorld() = default;
};

class Service final : public fabric::BlockMover, public fabric::PeerMessenger, public fabric::RankView {
 public:
  Service(Machine& machine, ServiceWorld& world, const engine::EngineConfig& config);
  ~Service();

  // A rank's post has arrived here.
  void post(engine::PostedOperation operation);
  void receive(const std::shared_ptr<const Batch>& batch);
  // On a DPU: a rank of this host may be able to copy from now on.
  void share_out();

  void move(const Block& from, const Block& to, const BlockId* name, fabric::MoveCompletion& completion) override;
  void reduce(const Reduction& reduction, std::span<const Block> operands, std::span<const BlockId> names,
              const Block& into, fabric::MoveCompletion& completion) override;
  void cancel(fabric::MoveCompletion& completion) override;
  void send_eager(const BlockId& name, const Block& from, SpId reader) override;
  void withdraw_eager(const BlockId& name) override;
  void forget_eager(const BlockId& name, SpId source) override;
  void send(SpId to, std::span<const std::byte> message) override;
  void mark_block(WorldRank destination, SlotIndex slot, GroupRank source, BlockMark mark) override;
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
  // Core time outside the engine.
  enum class Part : std::uint8_t { copy, relay, socket_out, socket_in, reduce };
  struct CoreJob {
    Transfer* transfer;
    Part part;
    std::uint64_t bytes;
  };

  // An event whose handling has this cost.
  void take(std::uint64_t cost_ns, std::function<void()> what);
  void wake();
  void turn();
  void do_core_job();
  [[nodiscard]] std::uint64_t core_job_ns(Part part, std::uint64_t bytes) const;
  void end_turn();
  void send_all();
  [[nodiscard]] ServiceWorld::Lender lender(WorldRank rank) const;
  [[nodiscard]] bool somebody_can_take() const;
  void ended(Transfer& transfer);
  Transfer& begin(const Block& from, const Block& to, fabric::MoveCompletion* completion);
  void add_part(Transfer& whole, std::unique_ptr<Transfer> part);
  std::uint64_t take_eager(const BlockId& id, Transfer& whole);
  Batch& batch_for(SpId to);
  [[nodiscard]] std::uint64_t control_ns_to(const Service& peer) const;

  Machine& machine_;
  ServiceWorld& world_;
  const ServiceModel& costs_;
  SpId self_;
  std::vector<WorldRank> own_ranks_;
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
  std::deque<CoreJob> core_jobs_;
  // On a DPU: blocks between ranks of the host that wait for a rank or the card, and those that the card moves.
  std::deque<Transfer*> held_;
  std::uint64_t card_bytes_ = 0;
  std::vector<Batch> batches_;                        // of this turn
  std::unordered_map<SpId, std::uint64_t> arrivals_;  // by peer: arrival time of the last batch
  std::unordered_map<fabric::MoveCompletion*, std::unique_ptr<Transfer>> transfers_;
  std::unordered_map<BlockId, std::unique_ptr<Transfer>> eager_;  // from peers, before the request
  struct SentEagerly {
    SpId reader;
    std::uint64_t bytes;
  };
  std::unordered_map<BlockId, SentEagerly> sent_eagerly_;
  std::unordered_map<SpId, std::uint64_t> eager_room_bytes_;  // room at peers
  bool busy_ = false;                                         // a turn is scheduled, or the core copies
};

}  // namespace outrigger::sim::model
