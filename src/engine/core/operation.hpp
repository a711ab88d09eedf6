// One collective on one group as this service process sees it, and one local rank's part in it: what algorithms are
// written against. An algorithm sees only this file, task.hpp and window.hpp.
//
// Order of events for every block, which algorithms keep: bytes placed, delivered mark, release to the source, then
// completion of either rank.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/context.hpp"
#include "engine/core/group.hpp"
#include "engine/core/pool.hpp"
#include "engine/core/ready_set.hpp"
#include "engine/core/task.hpp"
#include "engine/relay/replicas.hpp"

namespace outrigger::engine {

// What a local rank still needs from a peer's block for it.
enum class ReceiveState : std::uint8_t {
  waiting,  // nothing known (receiver-driven), or announced to the source and not yet delivered (sender-driven)
  ready,    // the peer has announced it: may be pulled
  moving,   // taken by the algorithm: waits for the window, or is in flight
  filled,   // placed, or nothing to place
};

// What a local rank's block for a peer still needs.
enum class SendState : std::uint8_t {
  waiting,   // not yet asked for
  ready,     // the peer has announced where it goes: may be pushed
  moving,    // taken by the algorithm
  pushed,    // written and reported, not yet released
  released,  // not needed any more, or nothing to send
};

// Which of a rank's blocks may be sent before they are asked for.
enum class EagerSends : std::uint8_t {
  no,
  to_lone_ranks,  // that no other rank of the group shares a node with: nobody else could ask first
  to_all,
};

// The other end of a pair, as its rank has announced it.
struct RemoteBlock {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

// What a rank of the group has announced to all local ranks alike. One each, shared by the local ranks, so that the
// regular collectives need no addresses per pair.
struct RemoteBuffer {
  // Regular: the block for (or from) group rank i is `block_bytes` at base + i * stride_bytes. 0 bytes: not known.
  std::uint64_t base = 0;
  std::int64_t stride_bytes = 0;
  std::uint64_t block_bytes = 0;
  RegionId region;
  Epoch epoch;  // incarnation of the rank's service process that has announced last
};

// One pair of a local rank and a rank of the group. This is what a large group multiplies: a few bytes.
struct PairState {
  ReceiveState receive = ReceiveState::waiting;
  SendState send : 4 = SendState::waiting;
  bool ahead : 1 = false;      // the block that is sent may be sent ahead, until that is withdrawn
  bool placed : 1 = false;     // the block is in the receive buffer
  bool announced : 1 = false;  // the pair was ready once: its other end is known
  bool by_extent : 1 = false;  // from an extent of its own, not from the RemoteBuffer
  // How the push ended, for a report that is asked for again.
  std::uint8_t pushed_reach : 3 = 0;
  std::uint8_t pushed_status : 3 = 0;
};
static_assert(sizeof(PairState) == 3 && kReachCount <= 8);
static_assert(static_cast<std::uint32_t>(CompletionStatus::peer_lost) < 8, "peer_lost is the last one");

// One local rank's part in one operation. Memory: 3 bytes and 1 bit for each rank of the group; 16 bytes more where
// peers announce extents, and what the rank has posted.
class LocalRank final : public Pooled {
 public:
  LocalRank(Context& context, Operation& operation, PostedOperation&& posted, const Membership& membership);
  LocalRank(const LocalRank&) = delete;
  LocalRank& operator=(const LocalRank&) = delete;
  ~LocalRank();

  // Awaited: the next peer whose block may move, in ring order from the rank after this one (then from the last
  // taken), among those that have arrived. Nothing when all have been taken or need no move.
  class NextReady : private Suspension {
   public:
    explicit NextReady(LocalRank& rank) : rank_(rank) {}
    NextReady(const NextReady&) = delete;
    NextReady& operator=(const NextReady&) = delete;
    ~NextReady() = default;
    [[nodiscard]] bool await_ready() const { return rank_.ready_.any() || rank_.untaken_ == 0; }
    void await_suspend(std::coroutine_handle<> waiter) {
      handle = waiter;
      rank_.peer_ready_.wait(*this);
    }
    [[nodiscard]] std::optional<GroupRank> await_resume() { return rank_.take_next(); }

   private:
    LocalRank& rank_;
  };
  [[nodiscard]] NextReady next_ready_peer() { return NextReady(*this); }

  // Awaited: something holds of the rank, of which the signal tells.
  class Until : private Suspension {
   public:
    using Condition = bool (LocalRank::*)() const;
    Until(LocalRank& rank, Condition holds, Signal& signal) : rank_(rank), holds_(holds), signal_(signal) {}
    Until(const Until&) = delete;
    Until& operator=(const Until&) = delete;
    ~Until() = default;
    [[nodiscard]] bool await_ready() const { return (rank_.*holds_)(); }
    void await_suspend(std::coroutine_handle<> waiter) {
      handle = waiter;
      signal_.wait(*this);
    }
    void await_resume() const {}

   private:
    LocalRank& rank_;
    Condition holds_;
    Signal& signal_;
  };
  // Awaited: every receive block is filled.
  [[nodiscard]] Until filled() { return Until(*this, &LocalRank::is_filled, filled_); }
  // Awaited: every receive block is filled, every send block released, nothing is in flight, nobody reads here.
  [[nodiscard]] Until filled_and_released() { return Until(*this, &LocalRank::is_settled, settled_); }

  // A block that was taken is moved in so many parts, at once; each but the last ends by itself.
  void split_move(std::uint32_t parts) { extra_moves_ += parts - 1; }
  void end_part() { --extra_moves_; }

  // Starts a coroutine that belongs to this rank's part.
  void spawn(Task task) { tasks_.spawn(std::move(task)); }

  [[nodiscard]] GroupRank me() const { return posted_.me; }
  [[nodiscard]] WorldRank world() const { return posted_.rank; }

  // What a pull from the source moves.
  [[nodiscard]] std::uint64_t pull_bytes(GroupRank source) const;
  // Both ends of the pair's move, trimmed to what fits; never empty for a peer that was ready.
  [[nodiscard]] Block pull_from(GroupRank source) const;
  [[nodiscard]] Block pull_to(GroupRank source) const;
  [[nodiscard]] Block push_from(GroupRank destination) const;
  [[nodiscard]] Block push_to(GroupRank destination) const;

  // --- For the operation, not for algorithms. ---
  [[nodiscard]] const PostedOperation& posted() const { return posted_; }
  [[nodiscard]] bool has_announced() const { return side_ != kNotAnnounced; }
  [[nodiscard]] bool is_filled() const { return unfilled_ == 0; }
  [[nodiscard]] bool is_settled() const;
  [[nodiscard]] bool is_open() const { return has_announced() && !completed_ && !closing_; }
  // The source's block is here; so many bytes of it.
  [[nodiscard]] bool is_placed(GroupRank source) const { return pairs_[index_of(source)].placed; }
  [[nodiscard]] std::uint64_t placed_bytes(GroupRank source) const {
    return pairs_[index_of(source)].announced ? pull_bytes(source) : expected_bytes(source);
  }
  [[nodiscard]] bool waits_for(GroupRank source) const { return receive_state(source) != ReceiveState::filled; }
  // There is room for everything that the source, which has announced, sends.
  [[nodiscard]] bool gets_all_of(GroupRank source) const { return remote(source).bytes <= expected_bytes(source); }
  // Others read from the receive buffer.
  void add_reader() { ++readers_; }
  void remove_reader() {
    --readers_;
    notify();
  }
  [[nodiscard]] std::uint32_t readers() const { return readers_; }
  [[nodiscard]] std::optional<std::string> broken_invariant() const;

 private:
  friend class Operation;

  [[nodiscard]] std::optional<GroupRank> take_next();
  [[nodiscard]] ReceiveState receive_state(GroupRank peer) const { return pairs_[index_of(peer)].receive; }
  [[nodiscard]] SendState send_state(GroupRank peer) const { return pairs_[index_of(peer)].send; }
  [[nodiscard]] std::uint64_t expected_bytes(GroupRank source) const { return posted_.receive.bytes(source); }
  [[nodiscard]] std::uint64_t owed_bytes(GroupRank destination) const { return posted_.send.bytes(destination); }
  // 0 bytes while the pair has not been ready.
  [[nodiscard]] RemoteBlock remote(GroupRank peer) const;
  [[nodiscard]] Block remote_block(GroupRank peer, std::uint64_t bytes) const;
  // Whether the pair needs nothing more on the announced side.
  [[nodiscard]] bool pair_settled(GroupRank peer) const;
  void begin(peer::Side side);
  // `by_extent`: the peer's RemoteBuffer does not say where its end is.
  void set_ready(GroupRank peer, const RemoteBlock& remote, bool by_extent);
  void set_pushed(GroupRank destination, CompletionStatus status, Reach reach);
  void set_filled(GroupRank source);
  void set_released(GroupRank destination);
  void withdraw_eager(GroupRank destination);
  void forget_eager(GroupRank source);
  void end_move();
  void fail(CompletionStatus status);
  void notify();
  void unsettle_peer(GroupRank peer);  // one pair of the announced side has been settled

  enum class Announced : std::uint8_t { no, yes, with_credit };
  struct PeerState {
    std::uint32_t unsettled = 0;
    Announced announced = Announced::no;
  };

  Context& context_;
  Operation& operation_;
  const Membership& membership_;
  const PostedOperation posted_;
  static constexpr peer::Side kNotAnnounced{0};
  peer::Side side_ = kNotAnnounced;   // what the algorithm has announced
  PooledArray<PairState> pairs_;      // by group rank
  PooledArray<RemoteBlock> extents_;  // by group rank, where pairs say `by_extent`
  ReadySet ready_;
  std::uint32_t unfilled_ = 0;
  std::uint32_t unreleased_ = 0;
  std::uint32_t moving_ = 0;       // taken and not ended
  std::uint32_t extra_moves_ = 0;  // of blocks that are moved in parts: beyond one each
  std::uint32_t untaken_ = 0;      // pairs of the moving side that may still have to move
  std::uint32_t window_slots_ = 0;
  std::uint32_t eager_ = 0;  // blocks that may be sent ahead
  EagerSends eager_sends_ = EagerSends::no;
  std::uint32_t readers_ = 0;
  bool closing_ = false;
  bool completed_ = false;
  CompletionStatus status_ = CompletionStatus::ok;
  fabric::CompletionRecord record_;
  PooledArray<PeerState> peers_;  // as Membership::peers()
  Signal peer_ready_;
  Signal filled_;
  Signal settled_;
  Window& window_;
  TaskList tasks_;  // last: its tasks refer to everything above
};

class Operation final : public Pooled {
 public:
  Operation(Context& context, Group& group, std::uint64_t sequence);
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation();

  // --- For algorithms. ---

  // Tells every service process with members where the rank's blocks are, and meets those that were first.
  // `ahead`: which of them the fabric may send before they are asked for; their destinations get them by move_block().
  void announce_send_blocks(LocalRank& rank, EagerSends ahead = EagerSends::no) {
    rank.eager_sends_ = ahead;
    announce(rank, peer::Side::send);
  }
  void announce_receive_blocks(LocalRank& rank) { announce(rank, peer::Side::receive); }

  [[nodiscard]] Window::Enter enter_window(LocalRank& rank) { return context_.window.enter(rank.window_slots_); }
  void leave_window(LocalRank& rank) { context_.window.leave(rank.window_slots_); }

  // Awaited: copies a block. Dropping the coroutine cancels the move.
  class Move : private Suspension, private fabric::MoveCompletion {
   public:
    Move(Context& context, const Block& from, const Block& to) : context_(context), from_(from), to_(to) {}
    // The source's block for the rank, which may have been sent ahead.
    Move(Context& context, const LocalRank& rank, GroupRank source)
        : context_(context), from_(rank.pull_from(source)), to_(rank.pull_to(source)), rank_(&rank), source_(source) {}
    Move(const Move&) = delete;
    Move& operator=(const Move&) = delete;
    ~Move() {
      if (in_flight_) context_.fabric.cancel(*this);
    }
    [[nodiscard]] bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> waiter) {
      handle = waiter;
      in_flight_ = true;
      ++context_.counters.moves;
      context_.counters.moved_bytes += from_.bytes;
      if (rank_ == nullptr) return context_.fabric.move(from_, to_, *this);
      const BlockId id{rank_->operation_.id(), source_, rank_->me()};
      context_.fabric.move_block(id, context_.service_of(from_.memory.owner), from_, to_, *this);
    }
    [[nodiscard]] fabric::MoveOutcome await_resume() const { return outcome_; }

   private:
    void moved(const fabric::MoveOutcome& outcome) override {
      outcome_ = outcome;
      in_flight_ = false;
      context_.scheduler.make_ready(*this);
    }
    Context& context_;
    Block from_;
    Block to_;
    const LocalRank* rank_ = nullptr;
    GroupRank source_;
    fabric::MoveOutcome outcome_;
    bool in_flight_ = false;
  };
  [[nodiscard]] Move move(const Block& from, const Block& to) { return Move(context_, from, to); }
  [[nodiscard]] Move move_block(const LocalRank& rank, GroupRank source) { return Move(context_, rank, source); }

  // After a pull, in this order.
  void mark_delivered(LocalRank& destination, GroupRank source, const fabric::MoveOutcome& outcome);
  void release(LocalRank& destination, GroupRank source, const fabric::MoveOutcome& outcome);
  void count_filled(LocalRank& destination, GroupRank source, const fabric::MoveOutcome& outcome);

  // Where blocks are to be had from others than their sources.
  [[nodiscard]] Copies& copies();
  // The service process that gets the source's block for this node, or says who does.
  [[nodiscard]] SpId home_of(GroupRank source) const;
  [[nodiscard]] const Membership& membership() const { return *group_.membership(); }
  [[nodiscard]] const EngineLimits& limits() const { return context_.config.limits; }
  [[nodiscard]] bool on_own_node(GroupRank rank) const { return group_.membership()->on_own_node(rank); }
  // To all sources on this node: this rank has everything, and reads nowhere here any more.
  void release_own_node(LocalRank& rank);

  // After a push: the destination's service process marks, counts and releases.
  void report_delivered(LocalRank& source, GroupRank destination, const fabric::MoveOutcome& outcome);

  // The last step of an algorithm: the rank is told.
  void complete(LocalRank& rank);

  [[nodiscard]] Scheduler& scheduler() { return context_.scheduler; }
  // Where the frames of its coroutines come from.
  [[nodiscard]] Pool& frames() { return context_.frames; }

  // --- For the engine. ---
  [[nodiscard]] OperationId id() const;
  [[nodiscard]] LocalRank* find(GroupRank rank);
  [[nodiscard]] const RemoteBuffer& remote_buffer(GroupRank rank) const { return remote_[index_of(rank)]; }
  void add(PostedOperation&& posted, AlgorithmFunction algorithm);
  void remove_completed();
  void drop(GroupRank rank);
  // A local rank is known to have completed this operation, before a restart or by being gone: peers are told.
  void restored(WorldRank rank);
  // After all that are known so far have been told of: what waits for nobody any more goes.
  void forget_met_waiting();
  [[nodiscard]] bool is_over() const;
  [[nodiscard]] bool on_own_node(SpId service) const { return context_.share_node(service, context_.config.self); }
  // The first open part for which `holds` is true.
  template <class Predicate>
  [[nodiscard]] LocalRank* find_part(const Predicate& holds) const {
    for (const std::unique_ptr<LocalRank>& part : parts_) {
      if (holds(*part)) return part.get();
    }
    return nullptr;
  }
  [[nodiscard]] bool quiet() const { return copies_ == nullptr || copies_->quiet(); }
  void notify_parts();
  // A receive block has come to its end.
  void block_ended();

  void on_want(SpId from, const peer::Want& want);
  void on_copy(SpId from, const peer::Copy& copy);
  void on_done(SpId from, const peer::Done& done);
  void on_quiet(SpId from, const peer::Quiet& quiet);
  void on_announce(SpId from, peer::Announce announce);
  void on_delivered(SpId from, const peer::Delivered& delivered);
  void on_release(SpId from, const peer::Release& release);
  void on_finished(WorldRank rank, CompletionStatus status);
  void on_refusal(SpId from, const peer::Refusal& refusal);

  void reannounce(std::uint32_t peer);
  // Announces to a peer now that there is a credit. False: nothing was left to say.
  [[nodiscard]] bool announce_with_credit(GroupRank rank, std::uint32_t peer);
  [[nodiscard]] bool holds_credit(std::uint32_t peer) const { return outstanding_[peer] != 0; }
  void settled_at(LocalRank& rank, std::uint32_t peer);

  [[nodiscard]] bool has_parts() const { return !parts_.empty(); }
  [[nodiscard]] std::uint32_t window_slots() const;
  [[nodiscard]] std::optional<std::string> broken_invariant() const;

 private:
  struct Waiting {
    SpId from;
    Epoch epoch;
    peer::Announce announce;
  };

  // By (rank, first of the ranks that the piece is for).
  using WaitingAnnouncements = std::map<std::pair<WorldRank, std::uint32_t>, Waiting>;

  void announce(LocalRank& rank, peer::Side side);
  void meet_local_ranks(LocalRank& rank);
  void meet_waiting(LocalRank& rank);
  void announce_to(LocalRank& rank, std::uint32_t peer);
  // Does anybody at the peer have to hear of the rank? Of rooted collectives only the root's side hears of all.
  [[nodiscard]] bool concerns(const LocalRank& rank, std::uint32_t peer) const;
  void send_announcement(LocalRank& rank, std::uint32_t peer, bool again);
  [[nodiscard]] bool eager_sends(const LocalRank& rank, const Membership::Peer& reader) const;
  void send_eager(LocalRank& rank, const Membership::Peer& reader);
  [[nodiscard]] bool fits(const peer::Announce& announce, SpId from) const;
  void apply(const peer::Announce& announce, SpId from, LocalRank& rank);
  void answer_again(const peer::Announce& announce, LocalRank& rank);
  void learn_buffer(GroupRank rank, const BlockLayout& layout, Epoch epoch);
  void offer(LocalRank& destination, GroupRank source, const RemoteBlock& remote, bool by_extent);
  void invite(LocalRank& source, GroupRank destination, const RemoteBlock& remote, bool by_extent);
  void pushed(LocalRank& source, GroupRank destination);
  void delivered_to(LocalRank& destination, const peer::Delivered& delivered);
  void released_at(LocalRank& source, GroupRank destination, CompletionStatus status);
  void send_release(LocalRank& destination, GroupRank source, CompletionStatus status);
  void finished_at(LocalRank& rank, GroupRank finished, CompletionStatus status);
  void refuse(LocalRank& rank, GroupRank other);
  void refused(LocalRank& rank, GroupRank other);
  void give_back_credits(LocalRank& rank);
  void forget_useless_waiting();
  WaitingAnnouncements::iterator remove_waiting(WaitingAnnouncements::iterator waiting);

  Context& context_;
  Group& group_;
  std::uint64_t sequence_;
  std::vector<std::unique_ptr<LocalRank>> parts_;  // local ranks that have posted and not completed
  PooledArray<LocalRank*> open_;                   // the same, by number among the group's local ranks
  PooledArray<RemoteBuffer> remote_;               // by group rank
  WaitingAnnouncements waiting_;                   // that a local rank has not met yet
  PooledArray<std::uint32_t> outstanding_;         // per peer: announcements holding the operation's credit
  std::unique_ptr<Copies> copies_;                 // where the algorithm passes blocks on
};

inline RemoteBlock LocalRank::remote(GroupRank peer) const {
  const PairState& pair = pairs_[index_of(peer)];
  if (!pair.announced) return RemoteBlock();
  if (pair.by_extent) return extents_[index_of(peer)];
  const RemoteBuffer& buffer = operation_.remote_buffer(peer);
  RemoteBlock block;
  block.address = buffer.base + static_cast<std::uint64_t>(buffer.stride_bytes) * me().value();
  block.bytes = buffer.block_bytes;
  return block;
}

}  // namespace outrigger::engine
