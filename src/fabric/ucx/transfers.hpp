// Moves of this side, to it and from it: cut into chunks, started by turns, ended.
//
// What has been asked for or sent, and is not here or stored, is bounded per peer (PeerWindow) and in all; peers and
// moves take turns by chunks. A pull begins with what its peer has sent eagerly.
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
  awaited,  // asked for or sent
  offered,  // here, or waiting at its source until it is received
  landing,  // the network writes it to its place
};

struct Transfer {
  struct Chunk {
    std::uint64_t offset = 0;
    ChunkState state = ChunkState::awaited;
    PeerWindow::Clock::time_point begun;
  };
  bool pulls = true;
  Block from;
  // Of what is pulled reduced: the operands after `from`.
  std::optional<wire::OtherOperands> others;
  Block to;
  Peer* peer = nullptr;
  MoveCompletion* completion = nullptr;  // null: cancelled
  std::uint64_t chunk_bytes = 0;
  std::uint64_t started_bytes = 0;
  std::vector<Chunk> open_chunks;
  std::uint64_t eager_block = 0;  // the number of the block of which something comes without being asked for; 0: none
  MoveStatus status = MoveStatus::ok;

  [[nodiscard]] std::uint64_t bytes_at(std::uint64_t offset) const;
  // Of a window.
  [[nodiscard]] std::uint64_t charge_at(std::uint64_t offset) const;
  [[nodiscard]] MemoryRef local_at(std::uint64_t offset) const;
  [[nodiscard]] MemoryRef remote_at(std::uint64_t offset) const;
  // Null: none such is open.
  [[nodiscard]] Chunk* open_chunk(std::uint64_t offset);
  // Whether something may be written to it (still).
  [[nodiscard]] bool is_wanted() const { return completion != nullptr; }
};

class Transfers {
 public:
  enum class Way : std::uint8_t { pull, push };

  Transfers(const WireOptions& options, NodeMemory& memory, Network& network, Peers& peers, Channels& channels,
            ChunkSender& sender)
      : options_(options), memory_(memory), network_(network), peers_(peers), channels_(channels), sender_(sender) {}

  // As Wire::pull(), push() and cancel(). `block`: some of it may have come already.
  void begin(Way way, Peer& peer, const Block& from, const Block& to, MoveCompletion& completion,
             const BlockId* block = nullptr);
  // As Wire::pull() with others.
  void begin_reduced(Peer& peer, const Block& from, wire::OtherOperands others, const Block& to,
                     MoveCompletion& completion);
  void cancel(MoveCompletion& completion);
  // Moves with a peer that has left end as soon as nothing of them is being written.
  void give_up(const Peer& peer);
  // Moves with one that has been replaced begin anew with the one in its place. Nothing of the former one may be
  // believed from now on, and the fresh one must not be greeted while anything of it lands.
  void begin_again(const Peer& former, Peer& fresh);

  // Each does what can be done now; true when anything was.
  [[nodiscard]] bool start_chunks();
  [[nodiscard]] bool deliver() { return finished_.deliver(); }
  [[nodiscard]] bool anything_to_deliver() const { return !finished_.empty(); }
  [[nodiscard]] std::size_t size() const { return transfers_.size(); }
  [[nodiscard]] std::uint64_t window_used_bytes() const { return window_used_bytes_; }

  // Ours that an open chunk of the peer belongs to; null when there is none such (any more).
  [[nodiscard]] Transfer* find(const Peer& peer, const wire::Header& chunk, Way way);
  void set_chunk_state(const wire::Header& chunk, ChunkState state);
  // One chunk less is under way. A peer that ends one twice is not believed the second time.
  void chunk_ended(const wire::Header& chunk, MoveStatus status);

  // Of the eager block that the transfer takes: some bytes have come, or no more come.
  void eager_chunk_came(std::uint64_t id, std::uint64_t offset, std::span<const std::byte> bytes, bool last);
  void eager_ended(std::uint64_t id, MoveStatus status);

 private:
  // Null: it has ended.
  [[nodiscard]] Transfer* make(std::uint64_t id, Way way, Peer& peer, const Block& from, const Block& to,
                               MoveCompletion& completion);
  void queue(std::uint64_t id, Peer& peer);
  // One of the peer's next transfer. False: not now.
  [[nodiscard]] bool start_chunk(Peer& peer);
  // As ChunkSender::send().
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
