// The arguments of a blocking collective, of all bindings and count sizes alike.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "mpi/collectives/arguments.hpp"
#include "mpi/intranode/native_bits.hpp"
#include "mpi/native/abi.hpp"
#include "mpi/native/real.hpp"
#include "mpi/types/datatype.hpp"
#include "mpi/types/neighbor_side.hpp"
#include "protocol/collective_calls.hpp"
#include "protocol/reduction.hpp"
#include "steer/plan/decision.hpp"

namespace outrigger::mpi {

struct Job;

// The calls that are done in one way: by collective, size class where MPI makes sizes alike, and reduction.
struct TeamCallKey {
  steer::CallKey call;
  std::optional<Reduction> reduction = std::nullopt;
  bool operator==(const TeamCallKey&) const = default;
};

// The calling rank and its communicator.
struct TeamPlace {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
};

// One side of a call: a block for each member, or one.
struct TeamSide {
  const void* buffer = nullptr;
  bool listed = false;     // blocks have counts of their own
  std::int64_t count = 0;  // of each block, where they are alike
  Word counts = 0;         // else an array of them
  Word displacements = 0;  // ... and of places; of what is reduced there are none
  Word types = 0;          // of MPI_Alltoallw: an array of them in place of `type`, and displacements are in bytes
  bool addresses = false;  // displacements are MPI_Aint
  bool shared = false;     // one block for all neighbors
  const NeighborSide* neighbors = nullptr;  // of a neighbor collective: blocks are numbered by its places
  MPI_Datatype type{};
  TypeShape shape{};

  [[nodiscard]] bool in_place() const { return buffer == MPI_IN_PLACE; }
};

[[nodiscard]] constexpr bool is_reduction(CollectiveCall call) {
  switch (call) {
    case CollectiveCall::reduce:
    case CollectiveCall::allreduce:
    case CollectiveCall::reduce_scatter:
    case CollectiveCall::reduce_scatter_block:
    case CollectiveCall::scan:
    case CollectiveCall::exscan: return true;
    default: return false;
  }
}
[[nodiscard]] constexpr bool is_of_neighbors(CollectiveCall call) {
  switch (call) {
    case CollectiveCall::neighbor_alltoall:
    case CollectiveCall::neighbor_alltoallv:
    case CollectiveCall::neighbor_alltoallw:
    case CollectiveCall::neighbor_allgather:
    case CollectiveCall::neighbor_allgatherv: return true;
    default: return false;
  }
}
// Others are always native.
[[nodiscard]] constexpr bool is_done_by_teams(CollectiveCall call) {
  switch (call) {
    case CollectiveCall::barrier:
    case CollectiveCall::bcast:
    case CollectiveCall::allgather:
    case CollectiveCall::allgatherv:
    case CollectiveCall::alltoall:
    case CollectiveCall::alltoallv:
    case CollectiveCall::alltoallw:
    case CollectiveCall::gather:
    case CollectiveCall::gatherv:
    case CollectiveCall::scatter:
    case CollectiveCall::scatterv: return true;
    default: return is_reduction(call) || is_of_neighbors(call);
  }
}

// Indices of the buffers among a call's words; SIZE_MAX: it has no such buffer.
struct BufferPlaces {
  std::size_t send = SIZE_MAX;
  std::size_t receive = SIZE_MAX;

  [[nodiscard]] constexpr bool has(std::size_t argument) const { return argument == send || argument == receive; }
  [[nodiscard]] constexpr bool has_any() const { return send != SIZE_MAX; }
};
[[nodiscard]] constexpr BufferPlaces buffer_places(CollectiveCall call) {
  switch (call) {
    case CollectiveCall::barrier: return {};
    case CollectiveCall::bcast: return {.send = 0};
    case CollectiveCall::scatterv:
    case CollectiveCall::alltoallv:
    case CollectiveCall::alltoallw:
    case CollectiveCall::neighbor_alltoallv:
    case CollectiveCall::neighbor_alltoallw: return {.send = 0, .receive = 4};
    default: return is_reduction(call) ? BufferPlaces{0, 1} : BufferPlaces{0, 3};
  }
}

// A call whose blocks are in a row: the team takes the program's buffers as they are.
struct PlainBytes {
  std::uint64_t sent = 0;  // of a block
  std::uint64_t received = 0;
};
[[nodiscard]] constexpr bool has_plain_form(CollectiveCall call) {
  switch (call) {
    case CollectiveCall::barrier:
    case CollectiveCall::bcast:
    case CollectiveCall::allgather:
    case CollectiveCall::allgatherv:
    case CollectiveCall::alltoall:
    case CollectiveCall::alltoallv:
    case CollectiveCall::gather:
    case CollectiveCall::gatherv:
    case CollectiveCall::scatter:
    case CollectiveCall::scatterv:
    case CollectiveCall::reduce:
    case CollectiveCall::allreduce:
    case CollectiveCall::scan:
    case CollectiveCall::exscan:
    case CollectiveCall::reduce_scatter_block:
    case CollectiveCall::neighbor_allgather:
    case CollectiveCall::neighbor_allgatherv:
    case CollectiveCall::neighbor_alltoall:
    case CollectiveCall::neighbor_alltoallv: return true;
    default: return false;
  }
}
[[nodiscard]] constexpr bool has_lists(CollectiveCall call) {
  switch (call) {
    case CollectiveCall::allgatherv:
    case CollectiveCall::alltoallv:
    case CollectiveCall::alltoallw:
    case CollectiveCall::gatherv:
    case CollectiveCall::scatterv:
    case CollectiveCall::reduce_scatter:
    case CollectiveCall::neighbor_allgatherv:
    case CollectiveCall::neighbor_alltoallv:
    case CollectiveCall::neighbor_alltoallw: return true;
    default: return false;
  }
}

// No member knows all lengths of such a call before. So its size is the longest block of the last one by ranks.
[[nodiscard]] constexpr bool has_seen_sizes(CollectiveCall call) {
  switch (call) {
    case CollectiveCall::gatherv:
    case CollectiveCall::scatterv:
    case CollectiveCall::alltoallv:
    case CollectiveCall::alltoallw:
    case CollectiveCall::neighbor_alltoallv:
    case CollectiveCall::neighbor_alltoallw:
    case CollectiveCall::neighbor_allgatherv: return true;
    default: return false;
  }
}

struct TeamArguments {
  CollectiveCall call = CollectiveCall::barrier;
  bool large = false;  // counts and displacements are MPI_Count and MPI_Aint
  TeamSide send;       // of a broadcast the buffer
  TeamSide receive;
  MPI_Op operation{};
  int root = 0;
  bool on_grid = false;  // neighbors are those of a Cartesian grid
  std::optional<Reduction> reduction;
  RankOrder order = RankOrder::ranks;  // of the reduction

  // Not looked at before valid() is asked.
  [[nodiscard]] static TeamArguments of(CollectiveCall call, std::span<const Word> words, bool large);
  // May the MPI accept them? And fills in the shapes and the reduction.
  [[nodiscard]] bool valid(const Job& job, const TeamPlace& team);
  // How such calls are told apart. Nothing: ranks never do them. `seen_bytes`: of a block, where has_seen_sizes().
  [[nodiscard]] std::optional<TeamCallKey> key(std::uint32_t members, std::uint64_t seen_bytes) const;
  // Calls with the same words but for buffers, and with the same lists, come to the same: no types of the program's
  // own.
  [[nodiscard]] bool tells_by_words() const {
    const auto lasts = [](const TeamSide& side) {
      return side.types == 0 && (!side.shape.committed || side.shape.predefined);
    };
    return lasts(send) && lasts(receive);
  }
  // After valid(). Nothing: blocks may have to be packed, or the call has no such form.
  [[nodiscard]] std::optional<PlainBytes> plain(const TeamPlace& team) const;
  // The size of a block, if MPI makes it alike on all ranks.
  [[nodiscard]] std::optional<std::uint64_t> block_bytes() const;
  // A size that is alike on all ranks, for trials: block_bytes(), or a mean.
  [[nodiscard]] std::optional<std::uint64_t> alike_bytes(std::uint32_t members) const;

  [[nodiscard]] std::int64_t count_at(const TeamSide& side, std::uint32_t member) const {
    if (!side.listed) return side.count;
    return large ? static_cast<std::int64_t>(reinterpret_cast<const MPI_Count*>(side.counts)[member])
                 : static_cast<std::int64_t>(reinterpret_cast<const int*>(side.counts)[member]);
  }
  [[nodiscard]] MPI_Datatype type_at(const TeamSide& side, std::uint32_t member) const {
    return side.types == 0 ? side.type : reinterpret_cast<const MPI_Datatype*>(side.types)[member];
  }
  // The member's own block on a side. Lists of a side without meaning are not read, and reductions have no places.
  [[nodiscard]] const void* own_block(const TeamSide& side, std::uint32_t me) const {
    const bool has_places = !side.listed || (side.shape.committed && side.displacements != 0);
    return has_places ? offset_address(side.buffer, offset_at(side, me)) : side.buffer;
  }
  // From the buffer, in bytes.
  [[nodiscard]] std::int64_t offset_at(const TeamSide& side, std::uint32_t member) const {
    if (side.shared) return 0;
    if (!side.listed) return static_cast<std::int64_t>(member) * side.count * side.shape.extent;
    const std::int64_t elements =
        large || side.addresses
            ? static_cast<std::int64_t>(reinterpret_cast<const MPI_Aint*>(side.displacements)[member])
            : static_cast<std::int64_t>(reinterpret_cast<const int*>(side.displacements)[member]);
    return side.types == 0 ? elements * side.shape.extent : elements;
  }
};

}  // namespace outrigger::mpi
