// An operation as a caller describes it, and how it ends.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "client/memory/regions.hpp"
#include "protocol/block_layout.hpp"
#include "protocol/collective.hpp"
#include "protocol/ids.hpp"
#include "protocol/memory.hpp"
#include "protocol/reduction.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::client {

// One side of an operation: where this rank's blocks are. The extents are copied by post(); the blocks must stay valid
// until the operation is done.
using BufferLayout = BlockLayout<const void*, std::span<const PairExtent>>;

// The memory of one side's blocks, from the first byte to behind the last, and how service processes reach it.
struct SideMemory {
  enum class Reached : std::uint8_t { never, without_bytes, with_bytes };
  Reached reached = Reached::never;
  std::uint32_t members = 0;
  BufferLayout layout{};  // that was looked up
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  Regions::Place place{};
  std::uint64_t found_in = 0;  // Regions::state(); 0: not looked up

  // `state`: the present one.
  [[nodiscard]] bool holds_for(const BufferLayout& looked_at, std::uint32_t of_members, std::uint64_t state) const {
    return found_in != 0 && found_in == state && members == of_members && layout.base == looked_at.base &&
           layout.stride_bytes == looked_at.stride_bytes && layout.block_bytes == looked_at.block_bytes &&
           looked_at.extents.empty() && layout.extents.empty();
  }

  [[nodiscard]] bool is_private() const { return reached == Reached::with_bytes && place.region == kPrivateRegion; }
  // Service processes map all of it, or there are no bytes.
  [[nodiscard]] bool is_mapped() const { return reached != Reached::never && !is_private(); }
};

// A communicator that operations are posted on. Made by RankEndpoint::define_group(); shared by the operations in
// flight.
class Group;

struct OperationRequest {
  std::shared_ptr<const Group> group;
  std::uint64_t sequence = 0;
  Collective collective = Collective::ialltoall;
  Algorithm algorithm = Algorithm::ring_pull;
  std::optional<std::uint32_t> root;  // of a collective that has one
  // Set for a reduction. The rank then sends the whole vector and receives its part of the result, both without
  // stride. The two may not overlap: a caller that reduces in place sends from a copy.
  std::optional<Reduction> reduction;
  std::uint64_t part_offset_bytes = 0;  // ireduce_scatter: offset of that part in the vector
  std::uint64_t configuration = 0;      // digest of what must be equal on every rank; part of the operation's digest
  BufferLayout send;
  BufferLayout receive;
  // By RankEndpoint::find(), if the caller has called it for these layouts. Then post() need not look again.
  SideMemory send_memory;
  SideMemory receive_memory;
  // Neighbor collectives: the neighbors' group ranks in ascending order, without duplicates. The layout has one extent
  // for each. post() copies them.
  std::span<const std::uint32_t> send_neighbors;
  std::span<const std::uint32_t> receive_neighbors;
  bool by_plan = false;         // decided by the dispatch plan, not by a user's rule
  bool own_block_done = false;  // the caller copies its own block
  // Staging memory that this operation uses. A successful post() passes it to the client, which gives it back when the
  // operation is done and dropped.
  std::array<void*, 2> staging{};
  // All blocks with bytes are in staging memory. The operation then counts as done when its receive blocks are filled,
  // even if peers still have to read its send blocks.
  bool kept = false;
  bool timed = false;              // the result has times, unless a DPU serves the rank
  std::uint32_t native_calls = 0;  // of the group since the operation before, as NativeTally::post() says
};

struct OperationResult {
  CompletionStatus status = CompletionStatus::ok;
  std::array<std::uint64_t, kReachCount> bytes_by_reach{};
  std::uint32_t late_announcements = 0;
  std::uint64_t done_ns = 0;  // CLOCK_MONOTONIC when the service process was done; 0: not reported
  std::uint64_t late_ns = 0;  // how long this rank posted after the first one of the group
  WorldRank passed_by;        // of passed_natively
};

// An operation in flight. Owned by the caller, who polls it until done and then drops it. If a kept operation
// (OperationRequest) is dropped, the client holds its memory until peers have read it (ClientUsage::kept). Dropping an
// operation that is not done is allowed at the end of the program only: its memory is then kept until the client is
// destroyed.
class PendingOperation;
struct PendingOperationDeleter {
  void operator()(PendingOperation* operation) const;
};
using PendingOperationPtr = std::unique_ptr<PendingOperation, PendingOperationDeleter>;

}  // namespace outrigger::client
