// Moves that this side started: cut into chunks and started round-robin.
//
// Chunks in flight are limited per peer (PeerWindow) and in total; peers and moves take turns by chunks. A pull starts
// with the bytes that its peer has sent eagerly.
//
// Thread rule: one thread. Completions are delivered from deliver() only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "fabric/block_mover.hpp"
#include "fabric/finished_moves.hpp"
#include "fabric/node_memory.hpp"
#include "fabric/ucx/channels.hpp"
#include "fabric/ucx/chunk_sender.hpp"

namespace outrigger::fabric::ucx {

enum class ChunkState : std::uint8_t {
  awaited,  // requested or sent
  offered,  // here, or at its source until it is received
  landing,  // the network is writing it to its place
};

struct Transfer {
  struct Chunk {
    std::uint64_t offset = 0;
    ChunkState state = ChunkState::awaited;
    PeerWindow::Clock::time_point begun;
  };
  bool pulls = true;
  Block from;
  // Pulls that are reduced at the source: the operands after `from`.
  std::optional<wire::OtherOperands> others;
  Block to;
  Peer* peer = nullptr;
  MoveCompletion* completion = nullptr;  // nullptr: cancelled
  std::uint64_t chunk_bytes = 0;
  std::uint64_t started_bytes = 0;
  std::vector<Chunk> open_chunks;
  std::uint64_t eager_block = 0;  // number of its eager block; 0: none
  MoveStatus status = MoveStatus::ok;

  [[nodiscard]] std::uint64_t bytes_at(std::uint64_t offset) const;
  // Charge to a window.
  [[nodiscard]] std::uint64_t charge_at(std::uint64_t offset) const;
  [[nodiscard]] MemoryRef local_at(std::uint64_t offset) const;
  [[nodiscard]] MemoryRef remote_at(std::uint64_t offset) const;
  // nullptr if no such chunk is open.
  [[nodiscard]] Chunk* open_chunk(std::uint64_t offset);
  // False after cancel(): nothing may be written to `to`.
  [[nodiscard]] bool is_wanted() const { return completion != nullptr; }
};

class Transfers {
 public:
  enum class Way : std::uint8_t { pull, push };

  Transfers(const WireOptions& options, NodeMemory& memory, Network& network, Peers& peers, Channels& channels,
            ChunkSender& sender)
      : options_(options), memory_(memory), network_(network), peers_(peers), channels_(channels), sender_(sender) {}

  // See Wire::pull(), push() and cancel(). `block`: name of a block that may have arrived in part.
  void begin(Way way, Peer& peer, const Block& from, const Block& to, MoveCompletion& completion,
             const BlockId* block = nullptr);
  // See Wire::pull() with others.
  void begin_reduced(Peer& peer, const Block& from, wire::OtherOperands others, const Block& to,
                     MoveCompletion& completion);
  void cancel(MoveCompletion& completion);
  // Ends moves with a departed peer as soon as nothing of them is being written.
  void give_up(const Peer& peer);
  // Restarts moves with a replaced peer at its replacement. From now on ignore the former peer; start no handshake with
  // the fresh one while the former one's chunks are being written.
  void begin_again(const Peer& former, Peer& fresh);

  // Each does all that is possible now, and returns true if that was anything.
  [[nodiscard]] bool start_chunks();
  [[nodiscard]] bool deliver() { return finished_.deliver(); }
  [[nodiscard]] bool anything_to_deliver() const { return !finished_.empty(); }
  [[nodiscard]] std::size_t size() const { return transfers_.size(); }
  [[nodiscard]] std::uint64_t window_used_bytes() const { return window_used_bytes_; }

  // The local move to which the peer's open chunk belongs; nullptr if there is none any more.
  [[nodiscard]] Transfer* find(const Peer& peer, const wire::Header& chunk, Way way);
  void set_chunk_state(const wire::Header& chunk, ChunkState state);
  // A chunk has ended. A peer's second report of the same chunk is ignored.
  void chunk_ended(const wire::Header& chunk, MoveStatus status);

  // The transfer's eager block: some bytes have come, or the block has ended.
  void eager_chunk_came(std::uint64_t id, std::uint64_t offset, std::span<const std::byte> bytes, bool last);
  void eager_ended(std::uint64_t id, MoveStatus status);

 private:
  // nullptr if it has ended.
  [[nodiscard]] Transfer* make(std::uint64_t id, Way way, Peer& peer, const Block& from, const Block& to,
                               MoveCompletion& completion);
  void queue(std::uint64_t id, Peer& peer);
  // Starts a chunk of the peer's next transfer. False: not possible now.
  [[nodiscard]] bool start_chunk(Peer& peer);
  // See ChunkSender::send().
  [[nodiscard]] std::optional<MoveStatus> ask_or_send(std::uint64_t id, const Transfer& transfer);
  void ask_reduced(const Transfer& transfer, wire::Header chunk);
  void chunk_begun(std::uint64_t id, Transfer& transfer);
  void close_chunk(Transfer& transfer, std::size_t index);
  void take_eager(Transfer& transfer, std::uint64_t id, EagerBlock& block);
  void place_eager(Transfer& transfer, std::uint64_t offset, std::span<const std::byte> bytes);
  void await_landing(std::uint64_t id);
  void finish_if_done(std::uint64_t id, Transfer& transfer);

  const WireOptions& options_;
  NodeMemory& memory_;
  Network& network_;
  Peers& peers_;
  Channels& channels_;
  ChunkSender& sender_;
  std::unordered_map<std::uint64_t, Transfer> transfers_;
  std::uint64_t next_transfer_ = 1;
  std::uint64_t window_used_bytes_ = 0;
  std::deque<Peer*> turns_;  // with ready transfers
  FinishedMoves finished_;
};

}  // namespace outrigger::fabric::ucx
