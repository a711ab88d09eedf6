// A rank's control segment: one sealed memfd per rank, mapped by the rank and all service processes of its node. The
// keeper holds it, so it outlives them. Posts, delivered marks and completions go through it without system calls.
//
//   header | post ring | operation slots | key table | plans | groups | native calls | arena: arguments, marks, ...
//
// Service processes on a DPU do not map it. They read and write it by RDMA, without the rank's help. The key table has
// the keys of the rank's other memory.
//
// Writers:
//   rank     header.rank_*, header.overflow_tail and _first_*, ring, slots while `free`, the key table, groups, arena
//   service  results and `state = done`, delivered marks, header.service_*, header.overflow_taken, header.wire_route*
//   keeper   the constants of the header before it is shared, header.fatal_*, header.dpu_*
//   copies   see copy/copy_queue.hpp
//   plans    see steer/plan/dispatch_plan.hpp; native calls: see protocol/native_calls.hpp
//
// A slot goes free -> posted (rank) -> done (service) -> free (rank). A kept operation (kSlotKept) may become `filled`
// (service) before it is done. The ring holds indexes of posted slots. It has as many entries as there are slots, and a
// slot is in it at most once, so it cannot overflow.
//
// Without a free slot an operation becomes an overflow record in argument memory. Records form a chain, which the
// service process follows once it has drained the ring, without the rank's help. While records are not taken, the rank
// posts nothing to the ring, so operations are taken in order. The rank frees records from the oldest on, when a record
// is done and the next one has been taken. The last one stays as the chain's end. So all records that are not done can
// be found from the header. Service processes on a DPU do not read records: the client keeps such operations on its
// heap and posts them at the program's next call.
//
// A replacement service process finds its state here: the rank's groups and its progress on each (groups), posts that
// are not done (slots and records, taken or not), and their delivered blocks (marks). The rank may post meanwhile: the
// ring's tail is read once, and each slot has its ring position, so each is taken once.
//
// The service trusts nothing here: it copies a slot once, checks every field of the copy, and checks every range
// against the same rank's regions. Only lock-free 32-bit atomics are shared.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/futex.hpp"
#include "copy/copy_queue.hpp"
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
inline constexpr std::uint64_t kArenaBytes = 4ULL << 20;  // added regions extend it
// The arena begins with this many bytes for each slot: delivered marks of small groups. The rank allocates the rest.
inline constexpr std::uint32_t kSlotMarksBytes = 64;
inline constexpr std::size_t kFatalTextBytes = 480;
// Largest group of an operation. Larger communicators stay native.
inline constexpr std::uint32_t kMaxGroupSize = 1U << 20;

// Dispatch plans of one rank's communicators. Further communicators use the built-in table. Only steer reads an entry's
// contents; a fresh one is zeroed.
inline constexpr std::uint32_t kPlanEntries = 512;
inline constexpr std::size_t kPlanEntryBytes = 448;

// Number of an entry, from 1; 0: the communicator has none.
struct PlanNumber {
  std::uint16_t value = 0;
  [[nodiscard]] constexpr bool valid() const { return value != 0 && value <= kPlanEntries; }
  bool operator==(const PlanNumber&) const = default;
};

// A range in one of the posting rank's own regions.
struct LocalRef {
  std::uint32_t region = 0;   // RegionId
  std::uint32_t count = 0;    // length of an array that is given nowhere else; else 0
  std::uint64_t address = 0;  // in the rank's address space
};
static_assert(sizeof(LocalRef) == 16);

// `extents.region != 0`: a PairExtent[group_size] is there; for neighbor collectives a NeighborExtent[extents.count],
// in ascending order of distinct ranks.
using SlotLayout = BlockLayout<LocalRef, LocalRef>;
static_assert(sizeof(SlotLayout) == 48);

enum class SlotState : std::uint32_t {
  free = 0,
  posted = 1,
  done = 2,
  filled = 3,  // of a kept operation: the received data is in place and the result valid; `done` follows
};

// The request of a slot.
enum class SlotRequest : std::uint16_t {
  operation = 1,
  // uses group_high, group_low, plan only; completes at once; members and their bytes, in sequence, are the rank's own
  // note
  forget_group = 2,
  larger_blocks = 3,  // as 2, and collective: a call with larger blocks while it is native for small ones
  join_plan = 4,      // as 2, and group_size, group_rank, members: the group has a dispatch plan, but no operation yet
  ask_trial = 5,      // as 2, algorithm, and the rest of a TrialRequest in root: two ways are to be tried
  measured = 6,       // as 2, and the number of a trial as sequence: its times are in the plan's entry
  recall = 7,         // as 5: the usual way for such calls in an earlier run, by its measurements
  give_up = 8,        // as 2, and the number of a trial as sequence: it costs too much
};

// Set when the job cannot continue; the reason is in fatal_text. Also shows if it has been printed.
enum class FatalState : std::uint32_t {
  none = 0,
  said = 1,    // the keeper prints it
  unsaid = 2,  // not printed: ranks that notice print it
};

inline constexpr std::uint32_t kSlotOwnBlockDone = 1U << 0;     // the rank copies its own block itself
inline constexpr std::uint32_t kSlotReceiveFromRoot = 1U << 1;  // the only receive block is the root's

// The memory of both sides stays valid until the slot is done. So the rank may be told when its receive blocks are
// filled, and may continue while others still read its send blocks.
inline constexpr std::uint32_t kSlotKept = 1U << 2;
// The rank wants SlotResult::done_ns and late_ns.
inline constexpr std::uint32_t kSlotTimed = 1U << 3;
// The dispatch plan decides such calls. Without it a rule of the user's does, as long as service processes do not fail.
inline constexpr std::uint32_t kSlotByPlan = 1U << 4;

// The rank's request, plain data: the service copies it before it reads it.
struct SlotRequestBody {
  std::uint16_t request = 0;     // SlotRequest
  std::uint16_t collective = 0;  // Collective
  std::uint16_t algorithm = 0;   // Algorithm
  std::uint16_t plan = 0;        // PlanNumber, the same in all operations of a group; 0: none
  std::uint32_t flags = 0;
  std::uint32_t root = 0;
  std::uint64_t group_high = 0;
  std::uint64_t group_low = 0;
  std::uint64_t sequence = 0;
  std::uint64_t digest = 0;
  std::uint32_t group_size = 0;
  std::uint32_t group_rank = 0;
  LocalRef members;  // std::uint32_t[group_size]: world ranks
  LocalRef marks;    // BlockMark[group_size]: zeroed by the rank, set by the service
  SlotLayout send;
  SlotLayout receive;  // ireduce_scatter: `stride_bytes` is the offset of the single block in the vector
  std::uint16_t reduce_operation = 0;  // ReduceOperation and ElementType of a reduction, else 0
  std::uint16_t element_type = 0;
  std::uint32_t native_calls = 0;  // since the previous operation (native_calls.hpp)
};
static_assert(sizeof(SlotRequestBody) == 192);

// The service's answer, written once; valid once the state is `filled` or `done`.
struct SlotResult {
  std::uint32_t status = 0;  // CompletionStatus
  std::uint32_t late_announcements = 0;
  std::array<std::uint64_t, kReachCount> bytes_by_reach{};
  // Set for a kSlotTimed operation on a service process of this machine; else 0.
  std::uint64_t done_ns = 0;    // CLOCK_MONOTONIC at the notification of the rank
  std::uint64_t late_ns = 0;    // delay after the first rank of the group, as far as the service process knows
  std::uint32_t passed_by = 0;  // WorldRank; for CompletionStatus::passed_natively
  std::uint32_t reserved = 0;
};
static_assert(sizeof(SlotResult) == 96);

struct alignas(64) OperationSlot {
  std::atomic<std::uint32_t> state;  // SlotState
  std::uint32_t position = 0;        // ring entries put in before, modulo 2^32; unused in an overflow record
  SlotResult result;
  alignas(64) SlotRequestBody body;
};
static_assert(sizeof(OperationSlot) == 320);

// An operation without a slot, in argument memory. Its number and the link to it must be visible before it is counted.
struct OverflowRecord {
  OperationSlot operation;
  LocalRef next;             // valid once a further record is counted
  std::uint32_t number = 0;  // of all records of the rank, from 0, modulo 2^32
  std::uint32_t reserved = 0;
};
static_assert(sizeof(OverflowRecord) == 384);

// A communicator that the rank uses or has freed. A replacement service process needs it.
enum class GroupState : std::uint32_t {
  none = 0,
  in_use = 1,
  freed = 2,  // all its operations are done
};

// The rank writes it before the first request that names the group, after each operation, and when it frees the group.
// Entries of freed groups stay while there is room: peers may still ask about them.
struct alignas(64) GroupEntry {
  std::atomic<std::uint32_t> state;       // GroupState
  std::atomic<std::uint32_t> generation;  // number of uses of the entry; changes before all other fields
  std::uint64_t group_high = 0;
  std::uint64_t group_low = 0;
  std::uint32_t group_size = 0;
  std::uint32_t group_rank = 0;
  LocalRef members;        // std::uint32_t[group_size]; while in use
  std::uint32_t plan = 0;  // PlanNumber
  std::uint32_t reserved = 0;
  std::atomic<std::uint64_t> done_below;  // one more than the highest sequence whose slot has been freed
};
static_assert(sizeof(GroupEntry) == 64);
// Entries per rank. With more groups, a service process cannot be replaced.
inline constexpr std::uint32_t kGroupEntries = 4096;

// SegmentHeader::awaited_post. Two operations may have the same tag.
constexpr std::uint64_t post_tag(const OperationId& operation) {
  return operation.group.high ^ operation.group.low ^ ((operation.sequence + 1) * 0x9E3779B97F4A7C15ULL);
}

// SegmentHeader::rank_quiet.
inline constexpr std::uint32_t kRankQuiet = 1;
inline constexpr std::uint32_t kRankLeaves = 2;  // the rank's memory goes away

// Service processes on a DPU are numbered in the order of their start. Each writes its own word, and its successor in
// the same place writes another value. The word proves that the process can access the rank's memory, and later that
// the rank has stopped driving its network.
constexpr std::size_t proof_place(std::uint32_t process) {
  return process % kMaxServices;
}
constexpr std::uint32_t proof_of(std::uint32_t process, std::uint32_t of_rank_quiet) {
  return process * 4 + of_rank_quiet;
}

// SegmentHeader::dpu_calls.
inline constexpr std::uint32_t kDpuCalls = 1U << 0;
inline constexpr std::uint32_t kDpuCallsNoMore = 1U << 1;  // set by the rank, whose thread will end
inline constexpr std::uint32_t kDpuLost = 1U << 2;         // the rank must leave the DPU; also sent as leave_dpu

// A range of the rank's memory that is registered for RDMA. The rank fills an entry before it posts the first slot with
// its id. It does not change the entry before all such slots are done.
inline constexpr std::uint32_t kKeyCount = 512;  // ranges of one rank; at the limit ranks stage
inline constexpr std::size_t kKeyBytes = 992;
struct KeyEntry {
  std::uint32_t region = 0;        // RegionId, see keyed_region(); 0: none
  std::uint32_t key_bytes = 0;     // of `key`, a packed key of UCX
  std::uint32_t export_bytes = 0;  // length of the packed exported memory handle of UCX after the key; 0: none
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

  // Written by the rank: one line, which a service process on a DPU reads as a whole. `rank_base_address` (the rank's
  // mapping of the segment) is set before its first post. It is 0 again if the rank has left without a keeper.
  alignas(64) std::atomic<std::uint32_t> ring_tail;  // entries ever put in, modulo 2^32
  std::atomic<std::uint32_t> rank_sleeping;          // not 0: wake `completions` by futex after a completion
  std::atomic<std::uint64_t> rank_base_address;
  std::atomic<std::uint32_t> rank_quiet;     // not 0: the rank does not drive its network any more
  std::atomic<std::uint32_t> overflow_tail;  // overflow records ever appended, modulo 2^32
  // The oldest remaining record (a LocalRef); no region: there has been none.
  std::atomic<std::uint64_t> overflow_first_address;
  std::atomic<std::uint32_t> overflow_first_region;
  std::atomic<std::uint32_t> groups_used;      // upper bound of the entries ever used
  std::atomic<std::uint32_t> groups_unlisted;  // in use, and without an entry
  // For service processes on a DPU: the rank's waiting threads that would copy, and their turns, modulo 2^32.
  std::atomic<std::uint32_t> rank_lends;
  std::atomic<std::uint32_t> rank_lends_turns;
  std::atomic<std::uint32_t> copier_lends;  // likewise, not 0: its copier on a spare core looks for jobs

  // Written by the rank's service process. One line, too.
  alignas(64) std::atomic<std::uint32_t> completions;  // a futex word, incremented with every done slot
  std::atomic<std::uint32_t> service_sleeping;         // not 0: ring the doorbell after a post
  std::atomic<std::uint32_t> ring_head;                // entries ever taken
  std::atomic<std::uint32_t> overflow_taken;           // records ever taken
  std::atomic<std::uint32_t> service_restarts;         // replacements so far
  // post_tag() of an operation that all ranks of its group but this one have posted: a hint, of the last such one.
  std::atomic<std::uint64_t> awaited_post;

  // CPU time of the service process of the rank, and the time in which it was runnable but waited for its core.
  alignas(64) std::atomic<std::uint64_t> service_ran_ns;
  std::atomic<std::uint64_t> service_waited_ns;
  // The last known process of another job that ran on the core; -1: unknown process; 0: none ever.
  std::atomic<std::int32_t> service_other_job;

  // Proofs of service processes on a DPU that they can write here: proof_place(), proof_of().
  alignas(64) std::array<std::atomic<std::uint32_t>, kMaxServices> proofs;

  // Written by the service process of the rank, in a job of several nodes: its data routes. An entry is written once,
  // then counted.
  alignas(64) std::atomic<std::uint32_t> wire_route_count;
  std::array<WireRoute, kMaxWireRoutes> wire_routes{};

  // Written when the job cannot continue, by the keeper, or by the service process if the keeper is gone. The order is
  // the text, `fatal`, an increment of `completions`: so a rank about to sleep checks again.
  alignas(64) std::atomic<std::uint32_t> fatal;  // FatalState
  std::atomic<std::uint32_t> warned;  // not 0, and `fatal` 0: the text is about service processes that died too often
  std::array<char, kFatalTextBytes> fatal_text{};
  // The same with service processes on a DPU. dpu_process: the number of the rank's present process. kDpuCalls: another
  // process wants to connect, so a thread of the rank drives the network. This word wakes the thread. kDpuLost: that
  // thread closes the network for good.
  std::atomic<std::uint32_t> dpu_process;
  std::atomic<std::uint32_t> dpu_calls;

  CopyQueue copies;  // between the service process and the rank's threads
};
static_assert(sizeof(SegmentHeader) % 64 == 0);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free);

// Wakes the rank's sleeping threads. A thread announces its sleep and then checks for events; the other side makes an
// event visible and then calls this. Both use sequentially consistent operations, so one of them notices the other. The
// count keeps a thread that has just checked from falling asleep.
inline void wake_sleepers(SegmentHeader& header) {
  header.completions.fetch_add(1, std::memory_order_seq_cst);
  if (header.rank_sleeping.load(std::memory_order_seq_cst) != 0) futex_wake_all(header.completions);
}

// The same for events that are not completions: the count changes only if a thread sleeps.
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
  [[nodiscard]] OperationSlot& slot(SlotIndex slot) const {
    return reinterpret_cast<OperationSlot*>(base_ + slots_offset())[slot.value()];
  }
  [[nodiscard]] KeyEntry& key(std::uint32_t index) const {
    return reinterpret_cast<KeyEntry*>(base_ + keys_offset())[index];
  }
  [[nodiscard]] std::byte* plan_entry(PlanNumber number) const {
    return base_ + plans_offset() + (number.value - 1U) * kPlanEntryBytes;
  }
  [[nodiscard]] GroupEntry& group(std::uint32_t index) const {
    return reinterpret_cast<GroupEntry*>(base_ + groups_offset())[index];
  }
  [[nodiscard]] NativeCallsEntry& native_calls(std::uint32_t index) const {
    return reinterpret_cast<NativeCallsEntry*>(base_ + native_calls_offset())[index];
  }
  [[nodiscard]] std::byte* arena() const { return base_ + arena_offset(); }
  [[nodiscard]] std::byte* marks(SlotIndex slot) const { return arena() + std::size_t{slot.value()} * kSlotMarksBytes; }

  // Keeper only: writes the constants into a fresh, zeroed mapping.
  void initialize(WorldRank rank, std::uint32_t world_size) const;
  // For all others: true if the mapping holds a segment of this version for this rank.
  [[nodiscard]] bool valid_for(WorldRank rank) const;

 private:
  [[nodiscard]] static constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
    return (value + unit - 1) / unit * unit;
  }
  std::byte* base_ = nullptr;
};

}  // namespace outrigger
