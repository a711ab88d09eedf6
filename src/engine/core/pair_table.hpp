// Progress of a local rank with each rank of its group: a small state a pair, and counters that tell when all pairs are
// done. Large groups multiply this size: 3 bytes and 1 bit a pair.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <string>

#include "engine/core/group.hpp"
#include "engine/core/pool.hpp"
#include "engine/core/ready_set.hpp"
#include "protocol/wire/peer_messages.hpp"

namespace outrigger::engine {

// State of the block from a peer.
enum class ReceiveState : std::uint8_t {
  waiting,  // unknown (receiver-driven), or announced to the source and not delivered yet (sender-driven)
  ready,    // announced by the peer: may be pulled
  moving,   // taken by the algorithm: waits for the window or is in flight
  filled,   // placed, or empty
};

// State of the block for a peer.
enum class SendState : std::uint8_t {
  waiting,   // not requested yet
  ready,     // the peer has announced its buffer: may be pushed
  moving,    // taken by the algorithm
  pushed,    // written and reported, not released yet
  released,  // not needed any more, or empty
};

struct PairState {
  ReceiveState receive = ReceiveState::waiting;
  SendState send : 4 = SendState::waiting;
  bool eager : 1 = false;      // may be sent eagerly until withdrawn
  bool placed : 1 = false;     // in the receive buffer
  bool announced : 1 = false;  // was ready once: its peer's address is known
  bool by_extent : 1 = false;  // has an address from an extent
  // Result of the push, for a repeated report.
  std::uint8_t pushed_reach : 3 = 0;
  std::uint8_t pushed_status : 3 = 0;
  bool failed : 1 = false;  // a part of the block could not be read: it will never be placed
};
static_assert(sizeof(PairState) == 3 && kReachCount <= 8);
static_assert(static_cast<std::uint32_t>(CompletionStatus::passed_natively) < 8, "it is the last one");

// States advance once: waiting, ready, moving, then filled or released. Any state may go to filled or released at once.
class PairTable {
 public:
  PairTable(Pool& pool, std::size_t size, GroupRank me);

  [[nodiscard]] const PairState& operator[](GroupRank peer) const { return pairs_[index_of(peer)]; }

  // The algorithm has announced this side's blocks: pairs that become ready are taken and moved.
  void begin(peer::Side side);
  [[nodiscard]] bool has_begun() const { return side_ != kNotBegun; }
  [[nodiscard]] peer::Side side() const { return side_; }
  // True if the pair needs nothing more on the announced side.
  [[nodiscard]] bool is_settled(GroupRank peer) const;

  void set_ready(GroupRank peer, bool by_extent);
  // The nearest ready peer after this rank in the ring, or nullopt.
  [[nodiscard]] std::optional<GroupRank> take();
  [[nodiscard]] bool any_ready() const { return ready_.any(); }
  [[nodiscard]] bool all_taken() const { return untaken_ == 0; }
  // A taken block moves in `segments` concurrent moves; each but the last calls end_segment().
  void split_move(std::uint32_t segments) { extra_moves_ += segments - 1; }
  void end_segment();
  void end_move();

  void set_failed(GroupRank source) { pairs_[index_of(source)].failed = true; }
  void set_placed(GroupRank source) { pairs_[index_of(source)].placed = true; }
  void set_pushed(GroupRank destination, CompletionStatus status, Reach reach);
  // The destination has no room: only a report is needed.
  void skip_push(GroupRank destination);
  // False if it was filled already.
  bool fill(GroupRank source);
  bool release(GroupRank destination);
  [[nodiscard]] bool all_filled() const { return unfilled_ == 0; }
  [[nodiscard]] bool all_released() const { return unreleased_ == 0; }
  [[nodiscard]] bool all_settled() const { return unfilled_ == 0 && unreleased_ == 0 && moving_ == 0; }

  void set_eager(GroupRank destination);
  // False if it was not set.
  bool clear_eager(GroupRank destination);
  [[nodiscard]] bool any_eager() const { return eager_ != 0; }

  // Window slots that the rank may hold at most.
  [[nodiscard]] std::uint32_t moves() const { return moving_ + extra_moves_; }
  // Recounts all pairs. O(group).
  [[nodiscard]] std::optional<std::string> broken_invariant() const;

 private:
  [[nodiscard]] PairState& at(GroupRank peer) { return pairs_[index_of(peer)]; }
  void forget_untaken(GroupRank peer);

  static constexpr peer::Side kNotBegun{0};
  PooledArray<PairState> pairs_;  // by group rank
  ReadySet ready_;
  peer::Side side_ = kNotBegun;
  std::uint32_t unfilled_;
  std::uint32_t unreleased_;
  std::uint32_t untaken_ = 0;      // pairs of the moving side that may still have to move
  std::uint32_t moving_ = 0;       // taken and not ended
  std::uint32_t extra_moves_ = 0;  // further segments of blocks that move in segments
  std::uint32_t eager_ = 0;        // blocks that may be sent eagerly
};

// ---------------------------------------------------------------- for each block, so inline

inline bool PairTable::is_settled(GroupRank peer) const {
  const PairState& pair = (*this)[peer];
  return side_ == peer::Side::send ? pair.send == SendState::released : pair.receive == ReceiveState::filled;
}

inline void PairTable::set_ready(GroupRank peer, bool by_extent) {
  PairState& pair = at(peer);
  pair.announced = true;
  if (by_extent) pair.by_extent = true;
  if (side_ == peer::Side::send) {
    assert(pair.receive == ReceiveState::waiting && "a block becomes ready once");
    pair.receive = ReceiveState::ready;
  } else {
    assert(pair.send == SendState::waiting && "a block becomes ready once");
    pair.send = SendState::ready;
  }
  ready_.insert(peer);
}

inline std::optional<GroupRank> PairTable::take() {
  if (!ready_.any()) return std::nullopt;
  const GroupRank peer = ready_.take();
  PairState& pair = at(peer);
  if (side_ == peer::Side::send) {
    assert(pair.receive == ReceiveState::ready && "a peer in the ready set is ready");
    pair.receive = ReceiveState::moving;
  } else {
    assert(pair.send == SendState::ready && "a peer in the ready set is ready");
    pair.send = SendState::moving;
  }
  assert(untaken_ != 0 && "a block is taken once");
  --untaken_;
  ++moving_;
  return peer;
}

inline void PairTable::end_move() {
  assert(moving_ != 0 && "a move ends once");
  --moving_;
}

// The pair has ended without being taken.
inline void PairTable::forget_untaken(GroupRank peer) {
  ready_.erase(peer);
  assert(untaken_ != 0 && "a pair ends once");
  --untaken_;
}

inline bool PairTable::fill(GroupRank source) {
  ReceiveState& state = at(source).receive;
  if (state == ReceiveState::filled) return false;
  if (side_ == peer::Side::send && state != ReceiveState::moving) forget_untaken(source);
  state = ReceiveState::filled;
  --unfilled_;
  return true;
}

inline bool PairTable::release(GroupRank destination) {
  PairState& pair = at(destination);
  if (pair.send == SendState::released) return false;
  if (side_ == peer::Side::receive && pair.send != SendState::pushed) forget_untaken(destination);
  pair.send = SendState::released;
  --unreleased_;
  return true;
}

inline bool PairTable::clear_eager(GroupRank destination) {
  PairState& pair = at(destination);
  if (!pair.eager) return false;
  pair.eager = false;
  --eager_;
  return true;
}

}  // namespace outrigger::engine
