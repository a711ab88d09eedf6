#include "service/loop/slot_decoder.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "protocol/reduction.hpp"

namespace outrigger::service {
namespace {

std::optional<std::string> problem_of_group(const SlotRequestBody& body, std::uint32_t world_size) {
  if (body.group_size == 0 || body.group_size > std::min(kMaxGroupSize, world_size)) return "group size out of range";
  if (body.group_rank >= body.group_size) return "group rank not below the group size";
  return std::nullopt;
}

std::optional<std::string> problem_of_header(const SlotRequestBody& body, std::uint32_t world_size) {
  const auto collective = static_cast<Collective>(body.collective);
  if (!is_known(collective)) return "unknown collective";
  if (!has_algorithm(collective, static_cast<Algorithm>(body.algorithm))) return "unknown algorithm";
  constexpr std::uint32_t kFlags = kSlotOwnBlockDone | kSlotReceiveFromRoot | kSlotKept | kSlotTimed | kSlotByPlan;
  if ((body.flags & ~kFlags) != 0) return "unknown flags";
  if (((body.flags & kSlotReceiveFromRoot) != 0) != is_rooted(collective)) return "flags of another collective";
  if (is_rooted(collective) && body.receive.extents.region != 0) return "extents where there is one block";
  if (is_for_root(collective) && body.send.extents.region != 0) return "extents where there is one block";
  const bool names_reduction = body.reduce_operation != 0 || body.element_type != 0;
  if (names_reduction != is_reduction(collective)) return "operation and type of another collective";
  if (names_reduction && !decode_reduction(body.reduce_operation, body.element_type)) return "no such reduction";
  if (auto problem = problem_of_group(body, world_size)) return problem;
  if (body.root >= body.group_size) return "root not below the group size";
  return std::nullopt;
}

// `count` values of T at `ref`, in memory that the rank shares with us; nullptr when it is not all there.
template <class T>
const T* shared_array(const fabric::RankMemory& memory, LocalRef ref, std::uint64_t count) {
  const std::byte* bytes = memory.mapped(RegionId{ref.region}, ref.address, count * sizeof(T));
  if (bytes == nullptr || reinterpret_cast<std::uintptr_t>(bytes) % alignof(T) != 0) return nullptr;
  return reinterpret_cast<const T*>(bytes);
}

// Is [base + offset, + bytes) accessible? Blocks of no bytes are never touched and may be anywhere.
bool block_accessible(const fabric::RankMemory& memory, LocalRef base, std::int64_t offset, std::uint64_t bytes) {
  if (bytes == 0) return true;
  std::uint64_t address = 0;
  if (__builtin_add_overflow(base.address, offset, &address)) return false;
  return memory.accessible(RegionId{base.region}, address, bytes);
}

std::optional<std::string> problem_of_blocks(const fabric::RankMemory& memory, LocalRef base,
                                             std::span<const PairExtent> extents) {
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (!block_accessible(memory, base, extents[i].offset_bytes, extents[i].bytes)) {
      return "block " + std::to_string(i) + " is outside the rank's memory";
    }
  }
  return std::nullopt;
}

// Equally spaced blocks lie between the first and the last.
std::optional<std::string> problem_of_blocks(const fabric::RankMemory& memory, const SlotLayout& layout,
                                             std::uint32_t count) {
  std::int64_t last = 0;
  if (__builtin_mul_overflow(layout.stride_bytes, std::int64_t{count} - 1, &last)) return "stride too large";
  if (!block_accessible(memory, layout.base, 0, layout.block_bytes) ||
      !block_accessible(memory, layout.base, last, layout.block_bytes)) {
    return "blocks are outside the rank's memory";
  }
  return std::nullopt;
}

constexpr const char* kNoExtents = "the extents are not in the rank's shared memory";

std::optional<std::string> decode_extents(const SlotLayout& layout, std::uint32_t group_size,
                                          const fabric::RankMemory& memory, engine::BlockLayout& decoded) {
  const PairExtent* shared = shared_array<PairExtent>(memory, layout.extents, group_size);
  if (shared == nullptr) return kNoExtents;
  decoded.extents.resize(group_size);
  std::memcpy(decoded.extents.data(), shared, group_size * sizeof(PairExtent));
  return problem_of_blocks(memory, layout.base, decoded.extents);
}

std::optional<std::string> decode_neighbors(const SlotLayout& layout, std::uint32_t group_size,
                                            const fabric::RankMemory& memory, engine::BlockLayout& decoded) {
  const std::uint32_t count = layout.extents.count;
  if (count > group_size) return "more neighbors than the group has ranks";
  const auto* shared = shared_array<NeighborExtent>(memory, layout.extents, count);
  if (shared == nullptr) return kNoExtents;
  decoded.extents.resize(group_size);
  decoded.neighbors.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    NeighborExtent neighbor;
    std::memcpy(&neighbor, shared + i, sizeof(neighbor));
    const GroupRank rank{neighbor.rank};
    if (neighbor.rank >= group_size) return "a neighbor that is not in the group";
    if (!decoded.neighbors.empty() && rank <= decoded.neighbors.back()) return "neighbors that are not in order";
    decoded.neighbors.push_back(rank);
    decoded.extents[neighbor.rank] = neighbor.block;
  }
  return problem_of_blocks(memory, layout.base, decoded.extents);
}

std::optional<std::string> decode_layout(const SlotLayout& layout, const SlotRequestBody& body,
                                         const engine::PostedOperation& operation, const fabric::RankMemory& memory,
                                         engine::BlockLayout& decoded) {
  const std::uint32_t group_size = body.group_size;
  const bool of_neighbors = is_of_neighbors(operation.collective);
  decoded.base = MemoryRef{operation.rank, memory.known_as(RegionId{layout.base.region}), layout.base.address};
  if (layout.extents.region != 0) {
    return of_neighbors ? decode_neighbors(layout, group_size, memory, decoded)
                        : decode_extents(layout, group_size, memory, decoded);
  }
  if (of_neighbors) return std::nullopt;  // there are none
  decoded.stride_bytes = layout.stride_bytes;
  decoded.block_bytes = layout.block_bytes;
  return problem_of_blocks(memory, layout, group_size);
}

Result<Members> decode_members(const SlotRequestBody& body, WorldRank rank, const fabric::RankMemory& memory,
                               GroupCache& groups) {
  const auto* shared = shared_array<std::uint32_t>(memory, body.members, body.group_size);
  if (shared == nullptr) return Error{"the members are not in the rank's shared memory"};
  return groups.intern(rank, GroupId{body.group_high, body.group_low}, std::span(shared, body.group_size),
                       GroupRank{body.group_rank});
}

// A request about a group's dispatch plan.
Result<DecodedSlot> decode_about_plan(const SlotRequestBody& body, WorldRank rank, const fabric::RankMemory& memory,
                                      std::uint32_t world_size, GroupCache& groups) {
  const GroupId group{body.group_high, body.group_low};
  switch (static_cast<SlotRequest>(body.request)) {
    case SlotRequest::larger_blocks: {
      if (!is_known(static_cast<Collective>(body.collective))) return Error{"there is no such collective"};
      return DecodedSlot(LargerBlocks{group, static_cast<Collective>(body.collective)});
    }
    case SlotRequest::join_plan: {
      if (const auto problem = problem_of_group(body, world_size)) return Error{*problem};
      Result<Members> members = decode_members(body, rank, memory, groups);
      if (!members) return Error{members.error()};
      return DecodedSlot(JoinPlan{group, std::move(members).value()});
    }
    case SlotRequest::ask_trial: {
      const steer::TrialRequest request =
          steer::TrialRequest::decode(body.root, static_cast<Algorithm>(body.algorithm));
      if (!request.valid()) return Error{"such a trial cannot be"};
      return DecodedSlot(AskTrial{group, request});
    }
    case SlotRequest::recall: {
      const steer::TrialRequest earlier =
          steer::TrialRequest::decode(body.root, static_cast<Algorithm>(body.algorithm));
      if (!earlier.valid()) return Error{"such a decision cannot be"};
      return DecodedSlot(Recall{group, steer::CachedDecision{earlier.key, earlier.usual, false}});
    }
    case SlotRequest::measured:
    case SlotRequest::give_up: {
      if (body.sequence == 0 || body.sequence > UINT16_MAX) return Error{"there is no such trial"};
      const auto trial = static_cast<std::uint16_t>(body.sequence);
      if (static_cast<SlotRequest>(body.request) == SlotRequest::measured) {
        return DecodedSlot(TrialMeasured{group, trial});
      }
      return DecodedSlot(GiveUpTrial{group, trial});
    }
    default: return Error{"unknown request"};
  }
}

}  // namespace

Result<DecodedSlot> decode_slot(const SlotRequestBody& body, WorldRank rank, SlotIndex slot,
                                const fabric::RankMemory& memory, std::uint32_t world_size, GroupCache& groups) {
  const GroupId group{body.group_high, body.group_low};
  if (body.request == static_cast<std::uint16_t>(SlotRequest::forget_group)) return DecodedSlot(ForgetGroup{group});
  if (body.request != static_cast<std::uint16_t>(SlotRequest::operation)) {
    return decode_about_plan(body, rank, memory, world_size, groups);
  }
  if (const auto problem = problem_of_header(body, world_size)) return Error{*problem};

  const auto* marks = shared_array<std::uint8_t>(memory, body.marks, body.group_size);
  if (marks == nullptr) return Error{"the delivered marks are not in the rank's shared memory"};
  Result<Members> members = decode_members(body, rank, memory, groups);
  if (!members) return Error{members.error()};
  DecodedSlot decoded(std::in_place_type<engine::PostedOperation>);
  auto& operation = std::get<engine::PostedOperation>(decoded);
  operation.rank = rank;
  operation.slot = slot;
  operation.id = OperationId{group, body.sequence};
  operation.members = std::move(members).value();
  operation.me = GroupRank{body.group_rank};
  operation.collective = static_cast<Collective>(body.collective);
  operation.algorithm = static_cast<Algorithm>(body.algorithm);
  operation.root = body.root;
  operation.digest = body.digest;
  operation.reduction = decode_reduction(body.reduce_operation, body.element_type);
  operation.native_calls = body.native_calls;
  operation.own_block_done = (body.flags & kSlotOwnBlockDone) != 0;
  operation.kept = (body.flags & kSlotKept) != 0;
  if (const auto problem = decode_layout(body.send, body, operation, memory, operation.send)) {
    return Error{"send: " + *problem};
  }
  SlotLayout received = body.receive;
  if (operation.collective == Collective::ireduce_scatter) {  // one block, and where in the vector it begins
    operation.part_offset_bytes = static_cast<std::uint64_t>(std::exchange(received.stride_bytes, 0));
  }
  if (const auto problem = decode_layout(received, body, operation, memory, operation.receive)) {
    return Error{"receive: " + *problem};
  }
  if ((body.flags & kSlotReceiveFromRoot) != 0) operation.receive.only = GroupRank{body.root};
  return decoded;
}

}  // namespace outrigger::service
