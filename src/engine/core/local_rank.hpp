// One local rank's part in one operation: its blocks, their progress, and the events that its algorithm awaits.
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

// Blocks of a rank that may be sent before they are requested.
enum class EagerSends : std::uint8_t {
  no,
  slices,         // reductions: short parts of a contribution, to the ranks that reduce them
  to_lone_ranks,  // to ranks that are alone on their node, as no other rank there could ask first
  to_all,
};

// State of the announcements to another service process.
struct Contact {
  enum class Announced : std::uint8_t { no, yes, with_credit };
  std::uint32_t unsettled = 0;  // pairs of the announced side with the peer's ranks that are not settled
  Announced announced = Announced::no;
  bool has_neighbors = false;  // neighbor collectives: the peer serves a neighbor of the rank
};

class LocalRank final : public Pooled {
 public:
  LocalRank(Context& context, Operation& operation, PostedOperation&& posted);
  LocalRank(const LocalRank&) = delete;
  LocalRank& operator=(const LocalRank&) = delete;
  ~LocalRank();

  // --- For algorithms. ---

  // Awaited: of the arrived peers whose block may move, the nearest after this rank in the ring. nullopt when all are
  // taken or need no move.
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

  [[nodiscard]] Until<LocalRank> filled() { return Until(*this, &LocalRank::is_filled, filled_); }
  // Awaited: receive blocks filled, send blocks released, no move in flight, and no reader of this rank's buffer.
  [[nodiscard]] Until<LocalRank> filled_and_released() { return Until(*this, &LocalRank::is_settled, settled_); }

  // Starts a coroutine that this rank owns.
  void spawn(Task task) { tasks_.spawn(std::move(task)); }

  [[nodiscard]] const PostedOperation& posted() const { return blocks.posted(); }
  [[nodiscard]] GroupRank me() const { return posted().me; }
  [[nodiscard]] WorldRank world() const { return posted().rank; }

  // --- For the engine. ---

  // The algorithm has announced this side's blocks.
  void begin(peer::Side side, EagerSends eager);
  // The announced buffers are in use by others, and the rank may still serve readers.
  [[nodiscard]] bool is_open() const { return pairs.has_begun() && !completed_ && !closing_; }
  [[nodiscard]] bool is_settled() const;
  [[nodiscard]] bool is_completed() const { return completed_; }
  void set_completed() { completed_ = true; }

  // `by_extent`: the address comes from an extent, not from the peer's RemoteBuffer.
  void set_ready(GroupRank peer, const RemoteBlock& remote, bool by_extent);
  void fill(GroupRank source);
  void release(GroupRank destination);
  // The source's eager block is not needed any more.
  void forget_eager(GroupRank source);
  // Keeps the first failure. A truncation did deliver bytes, so a worse status replaces it.
  void fail(CompletionStatus status);
  // Wakes the algorithm if its condition may have changed.
  void notify();

  // A peer reads from the receive buffer.
  void add_reader() { ++readers_; }
  void remove_reader();
  [[nodiscard]] std::uint32_t readers() const { return readers_; }

  [[nodiscard]] std::optional<std::string> broken_invariant() const;

  PairTable pairs;
  BlockMap blocks;
  PooledArray<Contact> contacts;  // parallel to Membership::peers()
  fabric::CompletionRecord record;
  std::uint32_t window_slots = 0;  // held by this rank's moves
  std::uint32_t near_window_slots = 0;
  EagerSends eager_sends = EagerSends::no;
  bool held_back = false;  // its blocks are announced later
  Signal released;         // signalled when every send block is released

 private:
  [[nodiscard]] bool is_filled() const { return pairs.all_filled(); }
  void withdraw_eager(GroupRank destination);
  void tell_filled();
  void unsettle_contact(GroupRank peer);

  Context& context_;
  Operation& operation_;
  bool closing_ = false;  // about to complete: accepts no more readers
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

  // Called once, with the first rank.
  void make(Pool& pool, const Membership& membership);
  [[nodiscard]] bool made() const { return membership_ != nullptr; }

  LocalRank& add(std::unique_ptr<LocalRank> rank);
  // Lookups do not find the rank any more; its memory stays until remove_completed().
  void close(const LocalRank& rank);
  void remove_completed();
  void remove(const LocalRank& rank);
  void clear() { all_.clear(); }

  // In the order of their posts, including completed ranks that are not removed yet.
  [[nodiscard]] const Parts& all() const { return all_; }
  [[nodiscard]] bool empty() const { return all_.empty(); }
  [[nodiscard]] LocalRank* find(GroupRank rank) const;
  [[nodiscard]] LocalRank* find_open(GroupRank rank) const;
  // The first rank for which `holds` is true, or nullptr.
  template <class Predicate>
  [[nodiscard]] LocalRank* find_if(const Predicate& holds) const {
    for (const std::unique_ptr<LocalRank>& rank : all_) {
      if (holds(*rank)) return rank.get();
    }
    return nullptr;
  }

 private:
  Parts all_;
  PooledArray<LocalRank*> by_number_;  // by index among the group's local ranks
  const Membership* membership_ = nullptr;
};

}  // namespace outrigger::engine
