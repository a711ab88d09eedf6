// A rank's control segment: one sealed memfd per rank, mapped by the rank and by every service process of its node, and
// held by the keeper so that it outlives them. Posting, delivered marks and completion go through it without a
// system call.
//
//   header | post ring | operation slots | key table | plans | groups | native calls | arena: arguments, marks, ...
//
// Where service processes run on a DPU they do not map it: they read what the rank writes and write what they write by
// RDMA, with the rank passive. The key table then says by which keys the rank's other memory is reached.
//
// Who writes what:
//   rank     header.rank_*, header.overflow_tail and _first_*, ring, slots while `free`, the key table, groups, arena
//   service  results and `state = done`, delivered marks, header.service_*, header.overflow_taken, header.wire_route*
//   keeper   the constants of the header before anybody else maps it, header.fatal_*, header.dpu_*
//   copies   as copy/board.hpp says
//   plans    as steer/plan/dispatch_plan.hpp says; native calls as protocol/native_calls.hpp
//
// A slot goes free -> posted (rank) -> done (service) -> free (rank); of a kept operation (kSlotKept) it may become
// `filled` (service) before it is done. The ring holds indexes of posted slots; it has as
// many entries as there are slots, and a slot is in it at most once, so it cannot overflow.
//
// With no slot free an operation becomes an overflow record in argument memory. Records form a chain, each naming the
// next, which the service process follows once it has drained the ring: nothing has to happen in the rank. Until it has
// taken all of them the rank posts no operation to the ring, so that operations are taken in the order of their posts.
// The rank gives records back from the oldest on, each when it is done and the one behind it has been taken; the last
// one stays, for the next to be tied to. So the header names a record from which all that are not done can be found.
// Where service processes run on a DPU, which do not read records, the client keeps such operations on its heap and
// posts them at the program's next call.
//
// A service process that takes the place of one that has died finds here all that it has to know: which groups the rank
// uses and how far it is on each (groups), what is posted and not done (slots and records, whether they had been taken
// or not), and what of that has been delivered (marks). The rank takes no part in it, and may be posting meanwhile: the
// ring's tail is read once, and each slot says how far the ring was when it was posted, so that each is taken once.
//
// The service trusts nothing here: it copies a slot once, checks every field of the copy, and checks every range
// against the regions registered by the same rank. Only lock-free 32-bit atomics are shared.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/futex.hpp"
#include "copy/board.hpp"
#include "protocol/block_layout.hpp"
#include "protocol/collective.hpp"
#include "protocol/ids.hpp"
#include "protocol/limits.hpp"
#include "protocol/memory.hpp"
#include "protocol/native_calls.hpp"
#include "protocol/shared/wire_route.hpp"

namespace outrigger {

inline constexpr std::uint64_t kSegmentMagic = 0x3152474952545530ULL;

inline constexpr std::uint32_t kSlotCount = 4096;         // further operations overflow; power of two
inline constexpr std::uint64_t kArenaBytes = 4ULL << 20;  // grows by added regions
inline constexpr std::size_t kFatalTextBytes = 480;
// Largest group an operation may name. At the limit the communicator stays native.
inline constexpr std::uint32_t kMaxGroupSize = 1U << 20;

// Dispatch plans of one rank's communicators at a time. At the limit further communicators go by the built-in table.
// Only steer reads an entry's contents; a fresh one is zeroed.
inline constexpr std::uint32_t kPlanEntries = 512;
inline constexpr std::size_t kPlanEntryBytes = 448;

// The number of an entry, from 1; 0: the communicator has none.
struct PlanNumber {
  std::uint16_t value = 0;
  [[nodiscard]] constexpr bool valid() const { return value != 0 && value <= kPlanEntries; }
  bool operator==(const PlanNumber&) const = default;
};

// A range in one of the posting rank's own regions.
struct LocalRef {
  std::uint32_t region = 0;   // RegionId
  std::uint32_t count = 0;    // of an array whose length nothing else says; else 0
  std::uint64_t address = 0;  // in the rank's address space
};
static_assert(sizeof(LocalRef) == 16);

// `extents.region != 0`: a PairExtent[group_size] is there; of a collective of neighbors a
// NeighborExtent[extents.count] in the order of their ranks, which differ.
using SlotLayout = BlockLayout<LocalRef, LocalRef>;
static_assert(sizeof(SlotLayout) == 48);

enum class SlotState : std::uint32_t {
  free = 0,
  posted = 1,
  done = 2,
  filled = 3,  // of a kept operation: what the rank receives is there, and the result holds; `done` is still to come
};

// What a slot asks for.
enum class SlotRequest : std::uint16_t {
  operation = 1,
  forget_group = 2,   // uses group_high, group_low, plan only; completed at once; members and their bytes, in
                      // sequence, are the rank's own note
  larger_blocks = 3,  // the same and collective: while it is native for small blocks the rank has called it with others
  join_plan = 4,  // the same, group_size, group_rank and members: the group has a dispatch plan, but no operation yet
  ask_trial = 5,  // the same as 2, algorithm, and the rest of a TrialRequest in root: two ways are to be tried
  measured = 6,   // the same as 2, and the number of a trial as sequence: its times are in the plan's entry
  recall = 7,     // as 5: what was usual for such calls in an earlier run, by what was measured then
  give_up = 8,    // the same as 2, and the number of a trial as sequence: it costs too much
};

// Why the job cannot go on stands in fatal_text, and whether people have been told.
enum class FatalState : std::uint32_t {
  none = 0,
  said = 1,    // the keeper prints it
  unsaid = 2,  // nobody has: ranks that notice print it
};

// Flags.
inline constexpr std::uint32_t kSlotOwnBlockDone = 1U << 0;     // the rank copies its own block itself
inline constexpr std::uint32_t kSlotReceiveFromRoot = 1U << 1;  // the receive block is the root's; no others

// The memory of both sides stays as it is until the slot is done, whatever the rank is told before: so it may be told
// as soon as its receive blocks are filled, and goes on while others have yet to read what it sends.
inline constexpr std::uint32_t kSlotKept = 1U << 2;
// The rank counts, and would like to know when: SlotResult::done_ns and late_ns.
inline constexpr std::uint32_t kSlotTimed = 1U << 3;

// What the rank asks, plain data: the service copies it out before it looks at it.
struct SlotRequestBody {
  std::uint16_t request = 0;     // SlotRequest
  std::uint16_t collective = 0;  // Collective
  std::uint16_t algorithm = 0;   // Algorithm
  std::uint16_t plan = 0;        // PlanNumber, the same in all of a group's; 0: none
  std::uint32_t flags = 0;
  std::uint32_t root = 0;
  std::uint64_t group_high = 0;
  std::uint64_t group_low = 0;
  std::uint64_t sequence = 0;
  std::uint64_t digest = 0;
  std::uint32_t group_size = 0;
  std::uint32_t group_rank = 0;
  LocalRef members;  // std::uint32_t[group_size]: world ranks
  LocalRef marks;    // std::uint8_t[group_size]: zeroed by the rank, set by the service
  SlotLayout send;
  SlotLayout receive;  // of an ireduce_scatter `stride_bytes` is where in the vector the one block begins
  std::uint16_t reduce_operation = 0;  // ReduceOperation and ElementType, of a reduction; else 0
  std::uint16_t element_type = 0;
  std::uint32_t native_calls = 0;  // since the operation before (native_calls.hpp)
};
static_assert(sizeof(SlotRequestBody) == 192);

// What the service answers, valid once the state is `filled` or `done`, and written once.
struct SlotResult {
  std::uint32_t status = 0;  // CompletionStatus
  std::uint32_t late_announcements = 0;
  std::array<std::uint64_t, kReachCount> bytes_by_reach{};
  // Of a kSlotTimed operation on a service process of this machine; else 0.
  std::uint64_t done_ns = 0;    // CLOCK_MONOTONIC when the rank was told
  std::uint64_t late_ns = 0;    // how long after the first rank of the group that the service process has heard of
  std::uint32_t passed_by = 0;  // WorldRank; of CompletionStatus::passed_natively
  std::uint32_t reserved = 0;
};
static_assert(sizeof(SlotResult) == 96);

struct alignas(64) OperationSlot {
  std::atomic<std::uint32_t> state;  // SlotState
  std::uint32_t position = 0;        // in the ring: entries put in before, modulo 2^32; nothing in an overflow record
  SlotResult result;
  alignas(64) SlotRequestBody body;
};
static_assert(sizeof(OperationSlot) == 320);

// An operation without a slot, in argument memory. Its number and the way to it must be visible before it is counted.
struct OverflowRecord {
  OperationSlot operation;
  LocalRef next;             // valid once a further record is counted
  std::uint32_t number = 0;  // of all records of the rank, from 0, modulo 2^32
  std::uint32_t reserved = 0;
};
static_assert(sizeof(OverflowRecord) == 384);

// A communicator that the rank uses or has freed: what a service process must know that takes the place of another.
enum class GroupState : std::uint32_t {
  none = 0,
  in_use = 1,
  freed = 2,  // every operation on it is done
};

// Written by the rank: before the first request that names the group, after each of its operations, and when it is
// freed. An entry of a group that has been freed is kept as long as there is room: others may still ask about it.
struct alignas(64) GroupEntry {
  std::atomic<std::uint32_t> state;       // GroupState
  std::atomic<std::uint32_t> generation;  // how often the entry has been used; changes before anything else does
  std::uint64_t group_high = 0;
  std::uint64_t group_low = 0;
  std::uint32_t group_size = 0;
  std::uint32_t group_rank = 0;
  LocalRef members;        // std::uint32_t[group_size]; while in use
  std::uint32_t plan = 0;  // PlanNumber
  std::uint32_t reserved = 0;
  std::atomic<std::uint64_t> done_below;  // one more than the highest sequence whose slot has been given back
};
static_assert(sizeof(GroupEntry) == 64);
// Of one rank. Groups beyond are used as others are, but no service process can take the place of another then.
inline constexpr std::uint32_t kGroupEntries = 4096;

// SegmentHeader::rank_quiet.
inline constexpr std::uint32_t kRankQuiet = 1;
inline constexpr std::uint32_t kRankLeaves = 2;  // the rank's memory goes away

// Processes on a DPU are numbered as they are started; each writes its own word, and the one whose turn comes in its
// place another value: that it reads and writes the rank's memory, and later that nobody looks at it any more.
constexpr std::size_t proof_place(std::uint32_t process) {
  return process % kMaxServices;
}
constexpr std::uint32_t proof_of(std::uint32_t process, std::uint32_t of_rank_quiet) {
  return process * 4 + of_rank_quiet;
}

// SegmentHeader::dpu_calls.
inline constexpr std::uint32_t kDpuCalls = 1U << 0;
inline constexpr std::uint32_t kDpuCallsNoMore = 1U << 1;  // set by the rank, whose thread is to end
inline constexpr std::uint32_t kDpuLost = 1U << 2;         // the rank is to leave it: leave_dpu says so, too

// A range of the rank's memory that is registered for RDMA. The rank fills an entry before the first slot that names
// its id, and leaves it alone while such a slot is not done.
inline constexpr std::uint32_t kKeyCount = 512;  // registered ranges of one rank at a time; at the limit ranks stage
inline constexpr std::size_t kKeyBytes = 992;
struct KeyEntry {
  std::uint32_t region = 0;        // RegionId, see keyed_region(); 0: none
  std::uint32_t key_bytes = 0;     // of `key`, a packed key of UCX
  std::uint32_t export_bytes = 0;  // behind them in `key`, a packed exported memory handle of UCX; 0: none
  std::uint32_t reserved = 0;
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
  std::array<std::byte, kKeyBytes> key{};
};
static_assert(sizeof(KeyEntry) == 1024);
static_assert(kKeyCount == 1U << kKeyIndexBits);

struct alignas(64) SegmentHeader {
  // Constants, written by the keeper.
  std::uint64_t magic = 0;
  std::uint32_t version = 0;
  std::uint32_t world_rank = 0;
  std::uint32_t world_size = 0;
  std::uint32_t slot_count = 0;
  std::uint64_t ring_offset = 0;
  std::uint64_t slots_offset = 0;
  std::uint64_t arena_offset = 0;
  std::uint64_t arena_bytes = 0;
  std::uint64_t segment_bytes = 0;

  // Written by the rank: one line, which a service process on a DPU reads as a whole. `rank_base_address` (where the
  // rank has mapped the segment) before its first post; 0 again: it has left, and no keeper was there to hear of it.
  alignas(64) std::atomic<std::uint32_t> ring_tail;  // entries ever put in, modulo 2^32
  std::atomic<std::uint32_t> rank_sleeping;          // not 0: wake `completions` by futex after a completion
  std::atomic<std::uint64_t> rank_base_address;
  std::atomic<std::uint32_t> rank_quiet;     // not 0: the rank lets its network rest from now on
  std::atomic<std::uint32_t> overflow_tail;  // overflow records ever appended, modulo 2^32
  // The oldest record that is still there (a LocalRef); no region: there has been none.
  std::atomic<std::uint64_t> overflow_first_address;
  std::atomic<std::uint32_t> overflow_first_region;
  std::atomic<std::uint32_t> groups_used;      // entries ever used are below this
  std::atomic<std::uint32_t> groups_unlisted;  // in use, and without an entry

  // Written by the service process that serves the rank; one line, too.
  alignas(64) std::atomic<std::uint32_t> completions;  // counts up with every slot done, and wakes; the futex word
  std::atomic<std::uint32_t> service_sleeping;         // not 0: after a post, ring the doorbell (eventfd)
  std::atomic<std::uint32_t> ring_head;                // entries ever taken out (for a restarted service process)
  std::atomic<std::uint32_t> overflow_taken;           // overflow records ever taken
  std::atomic<std::uint32_t> service_restarts;         // how often another one has taken its place

  // Of the core of the service process that serves the rank, while that process wanted to run: how long it ran, and how
  // long it had to wait for others.
  alignas(64) std::atomic<std::uint64_t> service_ran_ns;
  std::atomic<std::uint64_t> service_waited_ns;
  // The last process known of another job that has had the core, too, at any time; -1: not known which; 0: none has.
  std::atomic<std::int32_t> service_other_job;

  // Each service process on a DPU writes its own word here to show that it can: proof_place(), proof_of().
  alignas(64) std::array<std::atomic<std::uint32_t>, kMaxServices> proofs;

  // Written by the service process that serves the rank, in a job of several nodes: how its data travels. An entry is
  // written once, then counted.
  alignas(64) std::atomic<std::uint32_t> wire_route_count;
  std::array<WireRoute, kMaxWireRoutes> wire_routes{};

  // Written by the keeper (or by the service process when the keeper is gone) when the job cannot go on: the text, then
  // `fatal`, then `completions` counts up, so that a rank about to sleep looks again.
  alignas(64) std::atomic<std::uint32_t> fatal;  // FatalState
  std::atomic<std::uint32_t> warned;  // not 0, and `fatal` 0: the text is of service processes that died too often
  std::array<char, kFatalTextBytes> fatal_text{};
  // The same, where service processes run on a DPU: the number of the process that serves the rank now; kDpuCalls:
  // another one would like to connect, for which a thread of the rank lets the network work, woken by this word;
  // kDpuLost: that thread shuts the network, for good.
  std::atomic<std::uint32_t> dpu_process;
  std::atomic<std::uint32_t> dpu_calls;

  CopyBoard copies;  // between the service process that serves the rank and threads of the rank
};
static_assert(sizeof(SegmentHeader) % 64 == 0);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free);

// The rank's sleeping threads look again. A thread says that it sleeps and then looks whether there is something for
// it; whoever has something makes it visible and then comes here. Both in the one order of sequentially consistent
// operations: one of the two notices the other. The count, so that a thread that has looked does not fall asleep after
// this.
inline void wake_sleepers(SegmentHeader& header) {
  header.completions.fetch_add(1, std::memory_order_seq_cst);
  if (header.rank_sleeping.load(std::memory_order_seq_cst) != 0) futex_wake_all(header.completions);
}

// The same for what is not a completion: without a sleeper the count stays.
inline void wake_if_asleep(SegmentHeader& header) {
  if (header.rank_sleeping.load(std::memory_order_seq_cst) != 0) wake_sleepers(header);
}

// Typed views of a mapped segment of at least segment_bytes(). Owns nothing.
class SegmentView {
 public:
  SegmentView() = default;
  explicit SegmentView(std::byte* base) : base_(base) {}

  [[nodiscard]] static constexpr std::uint64_t ring_offset() { return round_up(sizeof(SegmentHeader), 4096); }
  [[nodiscard]] static constexpr std::uint64_t slots_offset() {
    return round_up(ring_offset() + kSlotCount * sizeof(std::uint32_t), 4096);
  }
  [[nodiscard]] static constexpr std::uint64_t keys_offset() {
    return round_up(slots_offset() + kSlotCount * sizeof(OperationSlot), 4096);
  }
  [[nodiscard]] static constexpr std::uint64_t plans_offset() {
    return round_up(keys_offset() + kKeyCount * sizeof(KeyEntry), 4096);
  }
  [[nodiscard]] static constexpr std::uint64_t groups_offset() {
    return round_up(plans_offset() + kPlanEntries * kPlanEntryBytes, 4096);
  }
  [[nodiscard]] static constexpr std::uint64_t native_calls_offset() {
    return round_up(groups_offset() + kGroupEntries * sizeof(GroupEntry), 4096);
  }
  [[nodiscard]] static constexpr std::uint64_t arena_offset() {
    return round_up(native_calls_offset() + kNativeCallsEntries * sizeof(NativeCallsEntry), 4096);
  }
  [[nodiscard]] static constexpr std::uint64_t segment_bytes() { return arena_offset() + kArenaBytes; }

  [[nodiscard]] explicit operator bool() const { return base_ != nullptr; }
  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] SegmentHeader& header() const { return *reinterpret_cast<SegmentHeader*>(base_); }
  [[nodiscard]] std::atomic<std::uint32_t>& ring_entry(std::uint32_t position) const {
    return reinterpret_cast<std::atomic<std::uint32_t>*>(base_ + ring_offset())[position % kSlotCount];
  }
  // `slot` must be below kSlotCount.
  [[nodiscard]] OperationSlot& slot(SlotIndex slot) const {
    return reinterpret_cast<OperationSlot*>(base_ + slots_offset())[slot.value()];
  }
  // `index` must be below kKeyCount.
  [[nodiscard]] KeyEntry& key(std::uint32_t index) const {
    return reinterpret_cast<KeyEntry*>(base_ + keys_offset())[index];
  }
  // `number` must be valid.
  [[nodiscard]] std::byte* plan_entry(PlanNumber number) const {
    return base_ + plans_offset() + (number.value - 1U) * kPlanEntryBytes;
  }
  // `index` must be below kGroupEntries.
  [[nodiscard]] GroupEntry& group(std::uint32_t index) const {
    return reinterpret_cast<GroupEntry*>(base_ + groups_offset())[index];
  }
  // `index` must be below kNativeCallsEntries.
  [[nodiscard]] NativeCallsEntry& native_calls(std::uint32_t index) const {
    return reinterpret_cast<NativeCallsEntry*>(base_ + native_calls_offset())[index];
  }
  [[nodiscard]] std::byte* arena() const { return base_ + arena_offset(); }

  // Keeper only: writes the constants into a fresh, zeroed mapping.
  void initialize(WorldRank rank, std::uint32_t world_size) const;
  // Everybody else: does the mapping hold a segment of this version, for this rank?
  [[nodiscard]] bool valid_for(WorldRank rank) const;

 private:
  [[nodiscard]] static constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
    return (value + unit - 1) / unit * unit;
  }
  std::byte* base_ = nullptr;
};

}  // namespace outrigger
