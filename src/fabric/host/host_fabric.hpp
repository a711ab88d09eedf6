// The fabric within one node: ranks' memory is shared (mapped) or reached by cross-memory attach, other service
// processes by rings in shared memory.
//
//   mapped  -> mapped    one memcpy
//   private -> mapped    one process_vm_readv          mapped -> private    one process_vm_writev
//   private by XPMEM     one memcpy, where the rank has offered it; what faults is copied as below
//   private -> private   one copy by the copier of one of the two ranks (rank_copier.hpp), where there is one; else
//                        relay through a staging buffer that fits in the second-level cache
//
// Copiers run on this process's core: progress() gives them what there is for them, copies its own share, and then
// lends them the core until they have finished or a millisecond is over. A copier that does not get on is left alone
// and its work done here, all but the one piece that it may have in hand.
//
// Where this process has no core of its own, ranks that wait do all this on theirs, without copiers: what a native
// MPI's ranks do, while this process sleeps. What they have not begun after some milliseconds, because they compute, is
// copied here.
//
// While all ranks of this process wait, those that are given copies are asked to make some of them on their own cores,
// and are given the next ones before all of the last are done. As soon as one computes they are asked no more: its core
// may be theirs.
//
// Moves are cut into chunks and served round robin, so that a long one delays a short one by a chunk at most. Every
// chunk is translated and bounds-checked again: a region may go away under a move, and then the move fails.
//
// Thread rule: one thread. Completions are delivered from progress() only.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/shared_memory.hpp"
#include "base/unique_fd.hpp"
#include "fabric/fabric.hpp"
#include "fabric/host/copy_kernel.hpp"
#include "fabric/host/host_move.hpp"
#include "fabric/host/rank_copier.hpp"
#include "fabric/host/rank_memory.hpp"
#include "fabric/host/xpmem_windows.hpp"
#include "fabric/node_memory.hpp"
#include "protocol/byte_ring.hpp"

namespace outrigger::fabric {

struct HostFabricOptions {
  std::uint64_t chunk_bytes = 256U << 10;     // of one move before the next one's turn
  std::uint64_t progress_bytes = 256U << 10;  // copied by one progress(); at least one chunk is
  std::uint32_t progress_moves = 64;          // ended by one progress()
  // A copier is woken for so much and more; what there is less of costs less to relay than to switch between the two.
  std::uint64_t copier_least_bytes = 64U << 10;
  std::uint64_t copier_wanted_bytes = 16U << 10;  // a block of so much is a reason to have a copier: there may be more
  std::uint64_t copier_most_bytes = 1U << 20;     // for one copier in one progress()
  std::uint64_t copiers_bytes = 2U << 20;         // for all of them in one progress(), at least one piece
  std::uint64_t helped_bytes = 4U << 20;          // the same, unfinished at a time, while ranks help
  // What a copier has not taken after so long is copied here.
  std::chrono::milliseconds copier_patience{10};
  // The same where only ranks that wait copy, and how much they take at a time.
  std::chrono::milliseconds rank_patience{2};
  std::uint64_t rank_piece_bytes = 1U << 20;
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
  // Ranks compute on this process's core: while copiers work there it sleeps. Otherwise it yields to them, which takes
  // no timer and no wake-up; ranks would keep such a turn for milliseconds.
  void share_core(bool shared) { core_is_shared_ = shared; }
  // Of the last cache of this process's processor: moves of more than that go past it. 0: not known, none do.
  void set_cache_bytes(std::uint64_t bytes) { cache_bytes_ = bytes; }
  // How mapped memory is copied now.
  [[nodiscard]] CopyKernel kernel() const;
  // The rank's private memory can be attached.
  void set_windows(WorldRank rank, std::unique_ptr<XpmemWindows> windows);
  // The rank is served by this process and may start a copier, or its threads that wait copy. Alike for all ranks.
  void expect_copier(WorldRank rank, CopyTakers takers = CopyTakers::copier);
  // A word of the rank's private memory, by which copiers of other ranks make sure that they reach the right process.
  void set_probe(WorldRank rank, std::uint64_t address);
  // The rank's memory is unmapped; its moves end as owner_lost in the next progress().
  void drop_rank(WorldRank rank);

  // The ring this process writes to reach `peer`, and the eventfd that wakes it.
  void add_peer(SpId peer, Mapping ring, UniqueFd doorbell);

  // A slot has been taken from the rank's post ring. Until complete(), marks go to `marks`, one byte for each of
  // `group_size` group ranks (bounds are checked at every mark). False: the slot is already open or not a slot.
  [[nodiscard]] bool open_slot(WorldRank rank, SlotIndex slot);
  // The same for an overflow record: gives it an index above those of the slots. Nothing: not in memory that the rank
  // shares, or open already.
  [[nodiscard]] std::optional<SlotIndex> open_record(WorldRank rank, LocalRef record);
  void set_marks(WorldRank rank, SlotIndex slot, LocalRef marks, std::uint32_t group_size);

  // Copies a bounded amount, delivers completions, sends what waited for room. True when anything was done.
  bool progress();
  [[nodiscard]] std::size_t moves_in_flight() const { return moves_.size() + ended_.size() + deferred_.size(); }
  // progress() has something to do. Moves may be in flight otherwise: ranks that wait have them, and ring when they
  // have finished.
  [[nodiscard]] bool anything_to_do() const;
  // Until progress() should look at what ranks have not begun; nothing: it need not.
  [[nodiscard]] std::optional<RankCopier::Clock::duration> patience_left() const;
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
  struct OpenSlot {
    bool open = false;
    LocalRef marks;
    std::uint32_t group_size = 0;
  };
  struct OpenRecords {
    std::vector<LocalRef> by_index;  // from kSlotCount on
    std::vector<SlotIndex> free;
    std::unordered_set<std::uint64_t> addresses;  // of those that are open
  };
  struct Rank {
    RankMemory memory;
    std::vector<OpenSlot> slots;  // and records
    OpenRecords records;
    std::unique_ptr<RankCopier> copier;     // null: none will come
    std::unique_ptr<XpmemWindows> windows;  // null: private memory is not attached
    std::uint64_t probe_address = 0;
    std::optional<std::uint64_t> probe_value;
  };
  struct Ended {
    MoveCompletion* completion;
    MoveOutcome outcome;
  };
  struct Deferred {
    WorldRank rank;
    SlotIndex slot;
    CompletionRecord record;
  };
  struct Peer {
    Mapping mapping;
    ByteRingWriter ring;
    UniqueFd doorbell;
    std::deque<std::vector<std::byte>> waiting;  // in order
  };

  [[nodiscard]] Rank* find(WorldRank rank);
  [[nodiscard]] OpenSlot* find_open(Rank* rank, SlotIndex slot);
  // Where the result goes; null: the rank has dropped the region of the record.
  [[nodiscard]] static OperationSlot* close(Rank& rank, SlotIndex slot);
  [[nodiscard]] RankCopier& copier_of(WorldRank rank) const { return *ranks_[rank.value()]->copier; }
  // host_fabric_moves.cpp
  [[nodiscard]] bool copy_directly();
  [[nodiscard]] MoveStatus copy_piece(const Piece& piece, Reach& reach);
  // Mapped, or attached by XPMEM.
  [[nodiscard]] bool in_reach(const MemoryRef& memory);
  [[nodiscard]] std::byte* attached(const MemoryRef& memory, std::uint64_t address, std::uint64_t bytes);
  void settle(const Piece& piece, MoveStatus status, Reach reach);
  void end_if_over(HostMove& move);
  void retire(HostMove& move);
  bool deliver_ended();
  [[nodiscard]] MoveStatus relay(const RankMemory& from, std::uint64_t from_address, const RankMemory& to,
                                 std::uint64_t to_address, std::uint64_t bytes);

  // host_fabric_copiers.cpp
  struct Helper {
    WorldRank rank;
    RankCopier* copier = nullptr;
  };
  // Who could make the move by one copy; no copier: nobody.
  [[nodiscard]] Helper helper_of(const HostMove& move);
  void queue(const Piece& piece);
  void list(WorldRank rank, RankCopier& copier);
  [[nodiscard]] bool lend_out();
  // So many bytes at present; 0: nothing.
  [[nodiscard]] std::uint64_t may_lend_to(RankCopier& copier, bool helped);
  [[nodiscard]] std::uint64_t lent_bytes();
  std::uint64_t lend_out_to(WorldRank rank, RankCopier& copier, std::uint64_t most);
  [[nodiscard]] bool leave_to_waiting_ranks();
  // All ranks that this process copies for wait, and would help.
  [[nodiscard]] bool ranks_help();
  void ask(WorldRank rank, RankCopier& copier);
  // Nothing: the piece cannot be given, and has been settled or queued elsewhere.
  [[nodiscard]] std::optional<CopyJob> job_of(WorldRank helper, RankCopier& copier, const Piece& piece);
  [[nodiscard]] bool probe_of(WorldRank rank, CopyJob& job);
  bool take_in();
  void take_in_from(WorldRank rank, RankCopier& copier);
  void give_up(const Piece& piece);
  void take_again(const Piece& piece);
  void stop_helping(RankCopier& copier);
  void lend_core();
  void wait_for_copiers();
  void yield_to_copiers();
  void forget_queued(const HostMove& move);
  void forget_pieces(HostMove& move);
  [[nodiscard]] bool has_orphans(WorldRank destination);
  void complete_deferred();

  [[nodiscard]] bool send_waiting(Peer& peer);
  static void wake(Peer& peer);

  HostFabricOptions options_;
  std::vector<std::optional<Rank>> ranks_;  // by world rank
  std::unordered_map<SpId, Peer> peers_;
  std::size_t messages_waiting_ = 0;
  bool core_is_shared_ = false;
  CopyTakers takers_ = CopyTakers::copier;
  std::uint64_t cache_bytes_ = 0;
  std::uint64_t bytes_under_way_ = 0;  // of all moves_
  std::list<HostMove> moves_;
  std::list<HostMove> spare_moves_;  // to be used again
  std::deque<Piece> queue_;          // what is copied here
  std::vector<WorldRank> with_copiers_;
  std::deque<WorldRank> helping_;  // ranks whose copiers have something to do
  std::deque<Ended> ended_;        // to be told
  // Cancelled pieces that copiers still have in hand. Completions of the ranks that they write to wait for them.
  std::size_t orphans_ = 0;
  std::vector<Deferred> deferred_;
  std::vector<RankCopier::Finished> finished_;  // kept for its memory, as is returned_
  std::vector<Piece> returned_;
  std::vector<std::byte> staging_;
};

}  // namespace outrigger::fabric
