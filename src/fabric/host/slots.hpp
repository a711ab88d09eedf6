// Operations as their ranks see them: delivered marks and completions.
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
  // open, or not a slot.
  [[nodiscard]] bool open(WorldRank rank, SlotIndex slot, bool told = false);
  // The same for an overflow record, which gets an index above those of slots. nullopt: not in memory that the rank
  // shares, or open.
  [[nodiscard]] std::optional<SlotIndex> open_record(WorldRank rank, LocalRef record, bool told = false);
  // Until complete(), marks go to `marks`, one byte for each of `group_size` group ranks (bounds are checked at every
  // mark).
  void set_marks(WorldRank rank, SlotIndex slot, LocalRef marks, std::uint32_t group_size);
  // The completion will tell the rank how late it came.
  void set_lateness(WorldRank rank, SlotIndex slot, std::uint64_t late_ns);
  void mark_block(WorldRank destination, SlotIndex slot, GroupRank source, BlockMark mark);
  void complete(WorldRank rank, SlotIndex slot, const CompletionRecord& record);

  // See RankView::filled(). The next tell_filled() notifies the rank, unless complete() comes first.
  void fill(WorldRank rank, SlotIndex slot, const CompletionRecord& record);
  // False if there were none.
  bool tell_filled();
  [[nodiscard]] bool any_to_tell() const { return !filled_.empty(); }

  // Completions that wait for late copies into their rank's memory.
  struct Deferred {
    WorldRank rank;
    SlotIndex slot;
    CompletionRecord record;
  };
  // Ignored if the slot is not open, as in complete(): it would end the slot's next operation.
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
    std::optional<std::uint64_t> late_ns = std::nullopt;  // if the rank wants its lateness
  };

  struct OpenRecords {
    std::vector<LocalRef> by_index;  // from kSlotCount on
    std::vector<SlotIndex> free;
    std::unordered_set<std::uint64_t> addresses;  // of the open records
  };
  struct RankSlots {
    std::vector<OpenSlot> slots;  // slots, then records; empty: the rank is not here
    OpenRecords records;
  };

  static void write_result(OperationSlot& shared, const CompletionRecord& record, const OpenSlot& open);
  // nullptr: no such rank, or the slot is not open.
  [[nodiscard]] OpenSlot* find_open(WorldRank rank, SlotIndex slot);
  // nullptr: not in memory that the rank shares.
  [[nodiscard]] OverflowRecord* record_at(WorldRank rank, LocalRef record) const;
  // nullptr: the rank has dropped the record's region.
  [[nodiscard]] OperationSlot* shared_slot(WorldRank rank, SlotIndex slot) const;
  // The place for the result, or nullptr as above.
  [[nodiscard]] OperationSlot* close(WorldRank rank, SlotIndex slot);

  NodeRanks& ranks_;
  std::vector<RankSlots> of_rank_;  // by world rank
  std::vector<Deferred> deferred_;
  std::vector<Deferred> filled_;  // to be told
};

}  // namespace outrigger::fabric
