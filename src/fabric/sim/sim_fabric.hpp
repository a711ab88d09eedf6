// The fabric in virtual time. Moves copy real bytes of simulated ranks in chunks. Messages take time and keep their
// order per pair of service processes. A service process can die in the middle of a move or a message.
//
// Thread rule: one thread. A World owns all memory and everything in flight; a SimFabric is one incarnation's view.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "fabric/seams.hpp"
#include "fabric/sim/options.hpp"
#include "fabric/sim/random.hpp"
#include "fabric/sim/virtual_time.hpp"

namespace outrigger::fabric::sim {

// One rank's memory: buffers with distinct, non-overlapping addresses.
class RankMemory {
 public:
  [[nodiscard]] std::uint32_t add(std::size_t bytes);
  [[nodiscard]] std::span<std::byte> buffer(std::uint32_t index) { return buffers_[index]; }
  [[nodiscard]] static std::uint64_t address_of(std::uint32_t index, std::uint64_t offset);
  [[nodiscard]] static std::uint32_t buffer_of(std::uint64_t address);
  // Empty if the range is not within one buffer.
  [[nodiscard]] std::span<std::byte> resolve(std::uint64_t address, std::uint64_t bytes);
  // The rank's process dies: nothing can be resolved any more.
  void lose() { lost_ = true; }
  [[nodiscard]] bool is_lost() const { return lost_; }

 private:
  bool lost_ = false;
  std::vector<std::vector<std::byte>> buffers_;
};

// Sees all relevant events when they happen.
class Observer {
 public:
  virtual void chunk_moves(SpId by, const Block& from, const Block& to) = 0;  // before the bytes are touched
  virtual void eager_read(SpId by, const Block& from) = 0;                    // for a block that is sent eagerly
  virtual void move_ended(SpId by) = 0;                                       // the engine has to run
  virtual void marked(SpId by, WorldRank destination, SlotIndex slot, GroupRank source, BlockMark mark) = 0;
  virtual void completed(SpId by, WorldRank rank, SlotIndex slot, const CompletionRecord& record) = 0;
  virtual void arrived(SpId from, SpId to, std::vector<std::byte> message) = 0;
  virtual void sent(SpId from, SpId to, std::span<const std::byte> message) = 0;

 protected:
  ~Observer() = default;
};

class World {
 public:
  World(std::uint64_t seed, const FaultOptions& fault_options, std::size_t ranks, Observer& watcher)
      : random(seed), faults(fault_options), memory(ranks), observer(watcher) {}
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  VirtualTime time;
  Random random;
  FaultOptions faults;
  std::vector<RankMemory> memory;  // by world rank
  Observer& observer;

  void send(SpId from, SpId to, std::span<const std::byte> message);
  // Messages to a crashed process are lost, including later ones until it is back. Its own messages arrive up to some
  // message.
  void lose_messages_of(SpId crashed);
  void is_back(SpId restarted) { away_.erase(restarted); }
  [[nodiscard]] std::size_t messages_in_flight() const;

  // Eager bytes, at the service process that will move the block.
  std::map<std::pair<SpId, BlockId>, std::vector<std::byte>> ahead;

 private:
  struct Letter {
    std::uint64_t id;
    std::vector<std::byte> message;
  };
  struct Pair {
    std::uint64_t last_arrival_ns = 0;
    std::deque<Letter> letters;
  };
  void arrive(SpId from, SpId to, std::uint64_t id);

  std::map<std::pair<SpId, SpId>, Pair> pairs_;
  std::set<SpId> away_;  // crashed and not back
  std::uint64_t next_letter_ = 0;
};

class SimFabric final : public BlockMover, public PeerMessenger, public RankView {
 public:
  SimFabric(World& world, SpId self) : world_(world), self_(self), alive_(std::make_shared<bool>(true)) {}
  ~SimFabric() { *alive_ = false; }
  [[nodiscard]] Seams seams() { return {*this, *this, *this}; }

  void move(const Block& from, const Block& to, const BlockId* name, MoveCompletion& completion) override;
  void reduce(const Reduction& reduction, std::span<const Block> operands, std::span<const BlockId> names,
              const Block& into, MoveCompletion& completion) override;
  void cancel(MoveCompletion& completion) override;
  void send_eager(const BlockId& name, const Block& from, SpId reader) override;
  void withdraw_eager(const BlockId& name) override;
  void forget_eager(const BlockId& name, SpId source) override;
  void send(SpId to, std::span<const std::byte> message) override;
  void mark_block(WorldRank destination, SlotIndex slot, GroupRank source, BlockMark mark) override;
  void complete(WorldRank rank, SlotIndex slot, const CompletionRecord& record) override;
  // Ranks see nothing of it.
  void filled(WorldRank /*rank*/, SlotIndex /*slot*/, const CompletionRecord& /*record*/) override {}
  [[nodiscard]] bool has_passed(WorldRank /*rank*/, const OperationId& /*operation*/,
                                std::uint32_t /*native_calls*/) override {
    return false;
  }

  // The process dies: its moves stop at some byte, and it has no further effect.
  void crash();
  [[nodiscard]] std::size_t moves_in_flight() const { return moves_.size(); }

 private:
  struct MoveState {
    std::uint64_t id;
    Block from;
    Block to;
    std::uint64_t done_bytes = 0;
    std::vector<std::byte> ahead;  // its eager bytes
    // Reductions only; `from` is the first operand.
    std::optional<Reduction> reduction;
    std::vector<Block> others;
    std::vector<std::vector<std::byte>> others_ahead;  // like `ahead`; empty, or one for each
  };
  // The eager bytes of that block that are here.
  [[nodiscard]] std::vector<std::byte> take_ahead(const BlockId& name);
  void schedule_chunk(MoveCompletion& completion, std::uint64_t id);
  void chunk(MoveCompletion& completion, std::uint64_t id);
  // A rank at an end of the move is lost.
  [[nodiscard]] bool has_lost_end(const MoveState& move) const;
  // Moves this many bytes, or the whole elements that begin in them. False: a range is bad.
  [[nodiscard]] bool do_some(MoveState& move, std::uint64_t bytes);
  [[nodiscard]] bool copy(MoveState& move, std::uint64_t bytes);
  [[nodiscard]] bool reduce_some(MoveState& move, std::uint64_t bytes);
  // The rest of the move's range; empty if it is bad.
  [[nodiscard]] std::span<std::byte> rest_of(const MoveState& move, const Block& block, std::uint64_t bytes);

  World& world_;
  SpId self_;
  std::shared_ptr<bool> alive_;
  std::unordered_map<MoveCompletion*, MoveState> moves_;
  std::set<BlockId> eager_;  // blocks that may be read and sent eagerly
  std::uint64_t next_move_ = 0;
};

}  // namespace outrigger::fabric::sim
