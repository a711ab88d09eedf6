// The fabric within one node: ranks' memory is shared (mapped) or reached by cross-memory attach, other service
// processes by rings in shared memory.
//
//   mapped  -> mapped    one memcpy
//   private -> mapped    one process_vm_readv          mapped -> private    one process_vm_writev
//   private -> private   relay through a staging buffer that fits in the second-level cache
//
// Moves are cut into chunks and served round robin, so that a long one delays a short one by a chunk at most. Every
// chunk is translated and bounds-checked again: a region may go away under a move, and then the move fails.
//
// Thread rule: one thread. Completions are delivered from progress() only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "fabric/fabric.hpp"
#include "fabric/host/rank_memory.hpp"
#include "fabric/node_memory.hpp"
#include "protocol/byte_ring.hpp"
#include "protocol/shared_memory.hpp"
#include "protocol/unique_fd.hpp"

namespace outrigger::fabric {

struct HostFabricOptions {
  std::uint64_t chunk_bytes = 256U << 10;     // of one move before the next one's turn
  std::uint64_t progress_bytes = 256U << 10;  // copied by one progress(); at least one chunk is
  std::uint32_t progress_moves = 64;          // ended by one progress()
  // Messages that wait for room in peers' rings. At the limit the caller takes no further posts until peers have read;
  // what follows from earlier posts and from peers' messages is still sent.
  std::size_t waiting_messages = 16384;
};

class HostFabric final : public Fabric, public NodeMemory {
 public:
  explicit HostFabric(HostFabricOptions options = {});

  // Ranks of this node. A rank that is not here cannot be read or written.
  void add_rank(WorldRank rank, RankMemory memory);
  [[nodiscard]] RankMemory* rank(WorldRank rank);
  // The rank's memory is unmapped; its moves end as owner_lost in the next progress().
  void drop_rank(WorldRank rank);

  // The ring this process writes to reach `peer`, and the eventfd that wakes it.
  void add_peer(SpId peer, Mapping ring, UniqueFd doorbell);

  // A slot has been taken from the rank's post ring. Until complete(), marks go to `marks`, one byte for each of
  // `group_size` group ranks (bounds are checked at every mark). False: the slot is already open or not a slot.
  [[nodiscard]] bool open_slot(WorldRank rank, SlotIndex slot);
  void set_marks(WorldRank rank, SlotIndex slot, LocalRef marks, std::uint32_t group_size);

  // Copies a bounded amount, delivers completions, sends what waited for room. True when anything was done.
  bool progress();
  [[nodiscard]] std::size_t moves_in_flight() const { return moves_.size(); }
  // Messages that wait for room in a peer's ring; nobody tells us when there is some, so look again soon.
  [[nodiscard]] bool messages_waiting() const { return messages_waiting_ != 0; }
  // HostFabricOptions::waiting_messages is reached: take no further posts.
  [[nodiscard]] bool backlogged() const { return messages_waiting_ >= options_.waiting_messages; }

  void move(const Block& from, const Block& to, MoveCompletion& completion) override;
  void cancel(MoveCompletion& completion) override;
  void send(SpId to, std::span<const std::byte> message) override;
  void mark_delivered(WorldRank destination, SlotIndex slot, GroupRank source) override;
  void complete(WorldRank rank, SlotIndex slot, const CompletionRecord& record) override;

  [[nodiscard]] View view(const MemoryRef& memory, std::uint64_t bytes) override;
  [[nodiscard]] MoveStatus read(const MemoryRef& from, std::span<std::byte> to) override;
  [[nodiscard]] MoveStatus write(const MemoryRef& to, std::span<const std::byte> from) override;

 private:
  struct Move {
    Block from;
    Block to;
    std::uint64_t done_bytes = 0;
    Reach reach = Reach::mapped;
    MoveCompletion* completion = nullptr;
  };
  struct OpenSlot {
    bool open = false;
    LocalRef marks;
    std::uint32_t group_size = 0;
  };
  struct Rank {
    RankMemory memory;
    std::vector<OpenSlot> slots;
  };
  struct Peer {
    Mapping mapping;
    ByteRingWriter ring;
    UniqueFd doorbell;
    std::deque<std::vector<std::byte>> waiting;  // in order
  };

  [[nodiscard]] Rank* find(WorldRank rank);
  [[nodiscard]] MoveStatus copy_chunk(Move& move, std::uint64_t bytes);
  [[nodiscard]] MoveStatus relay(const RankMemory& from, std::uint64_t from_address, const RankMemory& to,
                                 std::uint64_t to_address, std::uint64_t bytes);
  [[nodiscard]] bool send_waiting(Peer& peer);
  static void wake(Peer& peer);

  HostFabricOptions options_;
  std::vector<std::optional<Rank>> ranks_;  // by world rank
  std::unordered_map<SpId, Peer> peers_;
  std::size_t messages_waiting_ = 0;
  std::deque<Move> moves_;
  std::vector<std::byte> staging_;
};

}  // namespace outrigger::fabric
