// All collectives of MPI, for reports. This table generates the preload library's entry points, the places of a call's
// bytes in its arguments, and the names.
//
// A rank and its keeper share the numbers; both have the same version.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/collective.hpp"

// X(A, name, name behind MPI_I, number of arguments: blocking, nonblocking, persistent). A is passed through to X.
#define OUTRIGGER_OFFLOADED_CALLS(X, A)                     \
  X(A, Alltoall, alltoall, 7, 8, 9)                         \
  X(A, Alltoallv, alltoallv, 9, 10, 11)                     \
  X(A, Alltoallw, alltoallw, 9, 10, 11)                     \
  X(A, Allgather, allgather, 7, 8, 9)                       \
  X(A, Allgatherv, allgatherv, 8, 9, 10)                    \
  X(A, Bcast, bcast, 5, 6, 7)                               \
  X(A, Reduce, reduce, 7, 8, 9)                             \
  X(A, Allreduce, allreduce, 6, 7, 8)                       \
  X(A, Reduce_scatter_block, reduce_scatter_block, 6, 7, 8) \
  X(A, Gather, gather, 8, 9, 10)                            \
  X(A, Gatherv, gatherv, 9, 10, 11)                         \
  X(A, Scatter, scatter, 8, 9, 10)                          \
  X(A, Scatterv, scatterv, 9, 10, 11)                       \
  X(A, Reduce_scatter, reduce_scatter, 6, 7, 8)             \
  X(A, Scan, scan, 6, 7, 8)                                 \
  X(A, Exscan, exscan, 6, 7, 8)                             \
  X(A, Neighbor_alltoall, neighbor_alltoall, 7, 8, 9)       \
  X(A, Neighbor_alltoallv, neighbor_alltoallv, 9, 10, 11)   \
  X(A, Neighbor_alltoallw, neighbor_alltoallw, 9, 10, 11)   \
  X(A, Neighbor_allgather, neighbor_allgather, 7, 8, 9)     \
  X(A, Neighbor_allgatherv, neighbor_allgatherv, 8, 9, 10)
// Separate, since it has no form with large counts.
#define OUTRIGGER_BARRIER_CALL(X, A) X(A, Barrier, barrier, 1, 2, 3)

namespace outrigger {

enum class CallForm : std::uint8_t { blocking, nonblocking, persistent };
inline constexpr std::size_t kCallForms = 3;

enum class CollectiveCall : std::uint8_t {
#define OUTRIGGER_ENUMERATOR(unused, name, lower, blocking, nonblocking, persistent) lower,
  OUTRIGGER_OFFLOADED_CALLS(OUTRIGGER_ENUMERATOR, ) OUTRIGGER_BARRIER_CALL(OUTRIGGER_ENUMERATOR, )
#undef OUTRIGGER_ENUMERATOR
      count
};
inline constexpr auto kCollectiveCalls = static_cast<std::size_t>(CollectiveCall::count);

// Number of blocks of the given count and type.
enum class CallExtent : std::uint8_t {
  nothing,
  once,
  own_of_counts,     // one block; its count is in an array
  peers,             // one per rank of the communicator
  counts,            // one per rank, in an array
  counts_and_types,  // arrays of both
  neighbors,         // one per neighbor
  neighbor_counts,   // like `counts`, one per neighbor
  neighbor_counts_and_types
};

// Indexes of the arguments, from 0, that give the bytes which a rank sends, or receives if it sends none.
struct CallSide {
  CallExtent extent = CallExtent::nothing;
  std::int8_t count = 0;
  std::int8_t type = 0;
};
struct CallArguments {
  std::int8_t comm = 0;
  CallSide usual{};
  std::int8_t buffer = -1;  // if this argument is MPI_IN_PLACE, the other side counts
  CallSide in_place{};
};

[[nodiscard]] constexpr CallArguments arguments_of(CollectiveCall call) {
  using enum CallExtent;
  switch (call) {
    case CollectiveCall::alltoall: return {6, {peers, 1, 2}, 0, {peers, 4, 5}};
    case CollectiveCall::alltoallv: return {8, {counts, 1, 3}, 0, {counts, 5, 7}};
    case CollectiveCall::alltoallw: return {8, {counts_and_types, 1, 3}, 0, {counts_and_types, 5, 7}};
    case CollectiveCall::allgather: return {6, {once, 1, 2}, 0, {once, 4, 5}};
    case CollectiveCall::allgatherv: return {7, {once, 1, 2}, 0, {own_of_counts, 4, 6}};
    case CollectiveCall::bcast: return {4, {once, 1, 2}, -1, {}};
    case CollectiveCall::gather: return {7, {once, 1, 2}, 0, {once, 4, 5}};
    case CollectiveCall::gatherv: return {8, {once, 1, 2}, 0, {own_of_counts, 4, 6}};
    case CollectiveCall::scatter: return {7, {once, 4, 5}, 3, {once, 1, 2}};
    case CollectiveCall::scatterv: return {8, {once, 5, 6}, 4, {own_of_counts, 1, 3}};
    case CollectiveCall::reduce: return {6, {once, 2, 3}, -1, {}};
    case CollectiveCall::allreduce:
    case CollectiveCall::scan:
    case CollectiveCall::exscan: return {5, {once, 2, 3}, -1, {}};
    case CollectiveCall::reduce_scatter: return {5, {counts, 2, 3}, -1, {}};
    case CollectiveCall::reduce_scatter_block: return {5, {peers, 2, 3}, -1, {}};
    case CollectiveCall::neighbor_allgather: return {6, {once, 1, 2}, -1, {}};
    case CollectiveCall::neighbor_allgatherv: return {7, {once, 1, 2}, -1, {}};
    case CollectiveCall::neighbor_alltoall: return {6, {neighbors, 1, 2}, -1, {}};
    case CollectiveCall::neighbor_alltoallv: return {8, {neighbor_counts, 1, 3}, -1, {}};
    case CollectiveCall::neighbor_alltoallw: return {8, {neighbor_counts_and_types, 1, 3}, -1, {}};
    case CollectiveCall::barrier:
    case CollectiveCall::count: break;
  }
  return {};
}

// The collective with the same effect that can be offloaded.
[[nodiscard]] constexpr std::optional<Collective> offloaded_as(CollectiveCall call) {
  switch (call) {
    case CollectiveCall::alltoall: return Collective::ialltoall;
    case CollectiveCall::alltoallv: return Collective::ialltoallv;
    case CollectiveCall::alltoallw: return Collective::ialltoallw;
    case CollectiveCall::allgather: return Collective::iallgather;
    case CollectiveCall::allgatherv: return Collective::iallgatherv;
    case CollectiveCall::bcast: return Collective::ibcast;
    case CollectiveCall::reduce: return Collective::ireduce;
    case CollectiveCall::allreduce: return Collective::iallreduce;
    case CollectiveCall::reduce_scatter_block: return Collective::ireduce_scatter_block;
    case CollectiveCall::reduce_scatter: return Collective::ireduce_scatter;
    case CollectiveCall::scan: return Collective::iscan;
    case CollectiveCall::exscan: return Collective::iexscan;
    case CollectiveCall::gather: return Collective::igather;
    case CollectiveCall::gatherv: return Collective::igatherv;
    case CollectiveCall::scatter: return Collective::iscatter;
    case CollectiveCall::scatterv: return Collective::iscatterv;
    case CollectiveCall::barrier: return Collective::ibarrier;
    case CollectiveCall::neighbor_alltoall: return Collective::ineighbor_alltoall;
    case CollectiveCall::neighbor_alltoallv: return Collective::ineighbor_alltoallv;
    case CollectiveCall::neighbor_alltoallw: return Collective::ineighbor_alltoallw;
    case CollectiveCall::neighbor_allgather: return Collective::ineighbor_allgather;
    case CollectiveCall::neighbor_allgatherv: return Collective::ineighbor_allgatherv;
    default: return std::nullopt;
  }
}

// No rank leaves it before the last one of the communicator has arrived, if there is data. Not those in which a rank
// may have none while others have some.
[[nodiscard]] constexpr bool all_ranks_meet(CollectiveCall call) {
  switch (call) {
    case CollectiveCall::alltoall:
    case CollectiveCall::allgather:
    case CollectiveCall::allgatherv:
    case CollectiveCall::allreduce:
    case CollectiveCall::reduce_scatter:
    case CollectiveCall::reduce_scatter_block:
    case CollectiveCall::barrier: return true;
    default: return false;
  }
}

// A call and its form, as in a report's rows. Forms with large counts (MPI_X_c) count as the others.
struct CallKind {
  CollectiveCall call = CollectiveCall::alltoall;
  CallForm form = CallForm::blocking;
  friend bool operator==(const CallKind&, const CallKind&) = default;
};
inline constexpr std::size_t kCallKinds = kCollectiveCalls * kCallForms;
[[nodiscard]] constexpr std::size_t index_of(CallKind kind) {
  return static_cast<std::size_t>(kind.call) * kCallForms + static_cast<std::size_t>(kind.form);
}
[[nodiscard]] constexpr CallKind call_kind_at(std::size_t index) {
  return {static_cast<CollectiveCall>(index / kCallForms), static_cast<CallForm>(index % kCallForms)};
}

// "MPI_Alltoallv", "MPI_Ialltoallv", "MPI_Alltoallv_init".
[[nodiscard]] inline std::string name_of(CallKind kind) {
  static constexpr std::array<std::array<std::string_view, 2>, kCollectiveCalls> kNames{{
#define OUTRIGGER_NAMES(unused, name, lower, blocking, nonblocking, persistent) {#name, #lower},
      OUTRIGGER_OFFLOADED_CALLS(OUTRIGGER_NAMES, ) OUTRIGGER_BARRIER_CALL(OUTRIGGER_NAMES, )
#undef OUTRIGGER_NAMES
  }};
  const auto& [name, lower] = kNames[static_cast<std::size_t>(kind.call)];
  switch (kind.form) {
    case CallForm::blocking: return "MPI_" + std::string(name);
    case CallForm::nonblocking: return "MPI_I" + std::string(lower);
    case CallForm::persistent: return "MPI_" + std::string(name) + "_init";
  }
  return {};
}

}  // namespace outrigger
