// One local rank's part in one operation: what its algorithm waits for, where its blocks are, and how far they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "engine/core/block_map.hpp"
#include "engine/core/context.hpp"
#include "engine/core/group.hpp"
#include "engine/core/pair_table.hpp"
#include "engine/core/pool.hpp"
#include "engine/core/task.hpp"

namespace outrigger::engine {

class Operation;

// Which of a rank's blocks may be sent before they are asked for.
enum class EagerSends : std::uint8_t {
  no,
  slices,         // of a contribution: to whoever reduces a slice that is short, its part
  to_lone_ranks,  // that no other rank of the group shares a node with: nobody else could ask first
  to_all,
};

// What another service process has heard of a rank.
struct Contact {
  enum class Announced : std::uint8_t { no, yes, with_credit };
  std::uint32_t unsettled = 0;  // pairs of the announced side with its ranks that need something yet
  Announced announced = Announced::no;
  bool has_neighbors = false;  // of the rank, among its ranks; in collectives of neighbors
};

class LocalRank final : public Pooled {
 public:
  LocalRank(Context& context, Operation& operation, PostedOperation&& posted);
  LocalRank(const LocalRank&) = delete;
  LocalRank& operator=(const LocalRank&) = delete;
  ~LocalRank();

  // --- For algorithms. ---

  // Awaited: the next peer whose block may move, in ring order from the rank after this one (then from the last
  // taken), among those that have arrived. Nothing when all have been taken or need no move.
  class NextReady : private Suspension {
   public:
    explicit NextReady(LocalRank& rank) : rank_(rank) {}
    [[nodiscard]] bool await_ready() const { return rank_.pairs.any_ready() || rank_.pairs.all_taken(); }
    void await_suspend(std::coroutine_handle<> waiter) {
      handle = waiter;
      rank_.peer_ready_.wait(*this);
    }
    [[nodiscard]] std::optional<GroupRank> await_resume() { return rank_.pairs.take(); }

   private:
    LocalRank& rank_;
  };
  [[nodiscard]] NextReady next_ready_peer() { return NextReady(*this); }

  // Awaited: every receive block is filled.
  [[nodiscard]] Until<LocalRank> filled() { return Until(*this, &LocalRank::is_filled, filled_); }
  // Awaited: every receive block is filled, every send block released, nothing is in flight, nobody reads here.
  [[nodiscard]] Until<LocalRank> filled_and_released() { return Until(*this, &LocalRank::is_settled, settled_); }

  // Starts a coroutine that belongs to this rank's part.
  void spawn(Task task) { tasks_.spawn(std::move(task)); }

  [[nodiscard]] const PostedOperation& posted() const { return blocks.posted(); }
  [[nodiscard]] GroupRank me() const { return posted().me; }
  [[nodiscard]] WorldRank world() const { return posted().rank; }

  // --- For the engine. ---

  // The algorithm has announced this side's blocks.
  void begin(peer::Side side, EagerSends eager);
  // What it has announced may be used by others, and it may still do something for them.
  [[nodiscard]] bool is_open() const { return pairs.has_begun() && !completed_ && !closing_; }
  [[nodiscard]] bool is_settled() const;
  [[nodiscard]] bool is_completed() const { return completed_; }
  void set_completed() { completed_ = true; }

  // `by_extent`: the peer's RemoteBuffer does not say where its end is.
  void set_ready(GroupRank peer, const RemoteBlock& remote, bool by_extent);
  void fill(GroupRank source);
  void release(GroupRank destination);
  // The source's block is not needed (any more).
  void forget_eager(GroupRank source);
  // The first failure counts; a truncation, where bytes did arrive, gives way to whatever is worse.
  void fail(CompletionStatus status);
  // Something that the algorithm may wait for has changed.
  void notify();

  // Others read from the receive buffer.
  void add_reader() { ++readers_; }
  void remove_reader();
  [[nodiscard]] std::uint32_t readers() const { return readers_; }

  [[nodiscard]] std::optional<std::string> broken_invariant() const;

  PairTable pairs;
  BlockMap blocks;
  PooledArray<Contact> contacts;  // as Membership::peers()
  fabric::CompletionRecord record;
  std::uint32_t window_slots = 0;  // held by this rank's moves
  EagerSends eager_sends = EagerSends::no;
  Signal released;  // every send block is

 private:
  [[nodiscard]] bool is_filled() const { return pairs.all_filled(); }
  void withdraw_eager(GroupRank destination);
  void tell_filled();
  void unsettle_contact(GroupRank peer);  // one pair of the announced side has been settled

  Context& context_;
  Operation& operation_;
  bool closing_ = false;  // it will complete: nobody begins to read here any more
  bool completed_ = false;
  bool told_filled_ = false;
  std::uint32_t readers_ = 0;
  Signal peer_ready_;
  Signal filled_;
  Signal settled_;
  TaskList tasks_;  // last: its tasks refer to everything above
};

// The local ranks that have posted an operation and not completed it.
class LocalRanks {
 public:
  using Parts = std::vector<std::unique_ptr<LocalRank>>;

  // Once, with the first one.
  void make(Pool& pool, const Membership& membership);
  [[nodiscard]] bool made() const { return membership_ != nullptr; }

  LocalRank& add(std::unique_ptr<LocalRank> rank);
  // It is found no more; its memory stays until remove_completed().
  void close(const LocalRank& rank);
  void remove_completed();
  void remove(const LocalRank& rank);
  void clear() { all_.clear(); }

  // In the order of their posts, also those that are completed and not yet removed.
  [[nodiscard]] const Parts& all() const { return all_; }
  [[nodiscard]] bool empty() const { return all_.empty(); }
  [[nodiscard]] LocalRank* find(GroupRank rank) const;
  [[nodiscard]] LocalRank* find_open(GroupRank rank) const;
  // The first for which `holds` is true.
  template <class Predicate>
  [[nodiscard]] LocalRank* find_if(const Predicate& holds) const {
    for (const std::unique_ptr<LocalRank>& rank : all_) {
      if (holds(*rank)) return rank.get();
    }
    return nullptr;
  }

 private:
  Parts all_;
  PooledArray<LocalRank*> by_number_;  // among the group's local ranks
  const Membership* membership_ = nullptr;
};

}  // namespace outrigger::engine
