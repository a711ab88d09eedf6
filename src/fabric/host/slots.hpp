// Operations as their ranks see them: marks of what has been delivered, and completions.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_set>
#include <vector>

#include "fabric/host/node_ranks.hpp"
#include "fabric/rank_view.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::fabric {

class Slots {
 public:
  explicit Slots(NodeRanks& ranks) : ranks_(ranks) {}

  void add_rank(WorldRank rank);
  void drop_rank(WorldRank rank);
  // A slot has been taken from the rank's post ring. `told`: the rank knows already that it is filled. False: it is
  // already open, or not a slot.
  [[nodiscard]] bool open(WorldRank rank, SlotIndex slot, bool told = false);
  // The same for an overflow record: gives it an index above those of the slots. Nothing: not in memory that the rank
  // shares, or open already.
  [[nodiscard]] std::optional<SlotIndex> open_record(WorldRank rank, LocalRef record, bool told = false);
  // Until complete(), marks go to `marks`, one byte for each of `group_size` group ranks (bounds are checked at every
  // mark).
  void set_marks(WorldRank rank, SlotIndex slot, LocalRef marks, std::uint32_t group_size);
  // The rank will be told when it is done, and that it came so late.
  void set_lateness(WorldRank rank, SlotIndex slot, std::uint64_t late_ns);
  void mark_delivered(WorldRank destination, SlotIndex slot, GroupRank source);
  void complete(WorldRank rank, SlotIndex slot, const CompletionRecord& record);

  // As RankView's filled(). The rank is told by the next tell_filled(), unless the operation is complete by then, which
  // tells it as much.
  void fill(WorldRank rank, SlotIndex slot, const CompletionRecord& record);
  // True: anybody.
  bool tell_filled();
  [[nodiscard]] bool any_to_tell() const { return !filled_.empty(); }

  // Completions that wait for late copies into their rank's memory.
  struct Deferred {
    WorldRank rank;
    SlotIndex slot;
    CompletionRecord record;
  };
  // Of a slot that is not open: nothing, as by complete(), or it would end what the slot is used for next.
  void defer(const Deferred& completion) {
    if (find_open(completion.rank, completion.slot) != nullptr) deferred_.push_back(completion);
  }
  [[nodiscard]] std::size_t deferred() const { return deferred_.size(); }
  [[nodiscard]] std::vector<Deferred> take_deferred();

 private:
  struct OpenSlot {
    bool open = false;
    bool told = false;  // that it is filled, with the result
    LocalRef marks;
    std::uint32_t group_size = 0;
    std::optional<std::uint64_t> late_ns = std::nullopt;  // of one that is timed
  };

  struct OpenRecords {
    std::vector<LocalRef> by_index;  // from kSlotCount on
    std::vector<SlotIndex> free;
    std::unordered_set<std::uint64_t> addresses;  // of those that are open
  };
  struct RankSlots {
    std::vector<OpenSlot> slots;  // and records behind them; empty: the rank is not here
    OpenRecords records;
  };

  static void write_result(OperationSlot& shared, const CompletionRecord& record, const OpenSlot& open);
  // Null: no such rank, or the slot is not open.
  [[nodiscard]] OpenSlot* find_open(WorldRank rank, SlotIndex slot);
  // Null: not in memory that the rank shares.
  [[nodiscard]] OverflowRecord* record_at(WorldRank rank, LocalRef record) const;
  // Null: the rank has dropped the region of the record.
  [[nodiscard]] OperationSlot* shared_slot(WorldRank rank, SlotIndex slot) const;
  // Where the result goes; null as above.
  [[nodiscard]] OperationSlot* close(WorldRank rank, SlotIndex slot);

  NodeRanks& ranks_;
  std::vector<RankSlots> of_rank_;  // by world rank
  std::vector<Deferred> deferred_;
  std::vector<Deferred> filled_;  // to be told
};

}  // namespace outrigger::fabric
