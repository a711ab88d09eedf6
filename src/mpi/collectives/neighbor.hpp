// Common parts of the neighbor collectives' preload files. A call lists its blocks by neighbor, and the communicator's
// topology names the neighbors. Ranks have different neighbors, so no decision depends on them: a rank without any only
// counts the operation.
//
// Each side of a call is one of the kinds below. A side is checked only if it has a neighbor: without one its arguments
// are not significant.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mpi/collectives/entry_points.hpp"
#include "mpi/communicators/neighbor_order.hpp"
#include "mpi/communicators/neighbors.hpp"

namespace outrigger::mpi {

// `count` elements for each neighbor, one block after the other.
template <class Count>
struct EqualBlocks {
  const void* buffer;
  Count count;
  MPI_Datatype type;

  [[nodiscard]] bool valid(const Job& job, const NeighborSide& /*side*/) const {
    return valid_side(job, buffer, count, type);
  }
  [[nodiscard]] std::uint64_t largest(const Job& job, const NeighborSide& /*side*/) const {
    return count > 0 && valid_type(job, type) ? bytes_in(count, shape_of(job, type)) : 0;
  }
  void describe(const Job& job, const NeighborSide& side, Blocks& blocks) const {
    const TypeShape shape = shape_of(job, type);
    const auto elements = static_cast<std::int64_t>(count);
    blocks.set_neighbors(side, buffer, [&](std::uint32_t place) {
      return Blocks::Element{elements, static_cast<std::int64_t>(place) * elements * shape.extent, type, shape};
    });
  }
};

// One block, the same for all neighbors.
template <class Count>
struct OneBlock {
  const void* buffer;
  Count count;
  MPI_Datatype type;

  [[nodiscard]] bool valid(const Job& job, const NeighborSide& /*side*/) const {
    return valid_side(job, buffer, count, type);
  }
  void describe(const Job& job, const NeighborSide& side, Blocks& blocks) const {
    const TypeShape shape = shape_of(job, type);
    const auto elements = static_cast<std::int64_t>(count);
    const auto neighbors = static_cast<std::uint32_t>(side.places.size());
    if (!side.repeats()) return blocks.set_shared(buffer, elements, type, shape, neighbors, &side);
    blocks.set_neighbors(side, buffer, [&](std::uint32_t /*place*/) {
      return Blocks::Element{elements, 0, type, shape};
    });
  }
};

template <class Count, class Displacement>
struct CountedBlocks {
  const void* buffer;
  const Count* counts;
  const Displacement* displacements;
  MPI_Datatype type;

  [[nodiscard]] bool valid(const Job& job, const NeighborSide& side) const {
    if (counts == nullptr || displacements == nullptr || !valid_type(job, type)) return false;
    if (std::ranges::any_of(side.places, [&](std::uint32_t place) { return counts[place] < 0; })) return false;
    const auto at_buffer = [&](std::uint32_t place) { return counts[place] > 0 && displacements[place] == 0; };
    return valid_buffer(job, buffer, type, std::ranges::any_of(side.places, at_buffer));
  }
  [[nodiscard]] std::uint64_t largest(const Job& job, const NeighborSide& side) const {
    if (counts == nullptr || !valid_type(job, type)) return 0;
    Count most = 0;
    for (const std::uint32_t place : side.places) most = std::max(most, counts[place]);
    return bytes_in(most, shape_of(job, type));
  }
  void describe(const Job& job, const NeighborSide& side, Blocks& blocks) const {
    const TypeShape shape = shape_of(job, type);
    blocks.set_neighbors(side, buffer, [&](std::uint32_t place) {
      return Blocks::Element{static_cast<std::int64_t>(counts[place]),
                             static_cast<std::int64_t>(displacements[place]) * shape.extent, type, shape};
    });
  }
};

// A type for each block, and displacements in bytes.
template <class Count>
struct TypedBlocks {
  const void* buffer;
  const Count* counts;
  const MPI_Aint* displacements;
  const MPI_Datatype* types;

  [[nodiscard]] bool valid(const Job& job, const NeighborSide& side) const {
    if (counts == nullptr || displacements == nullptr || types == nullptr || buffer == MPI_IN_PLACE) return false;
    return std::ranges::all_of(side.places, [&](std::uint32_t place) {
      if (counts[place] <= 0) return counts[place] == 0;
      return valid_type(job, types[place]) && valid_buffer(job, buffer, types[place], displacements[place] == 0);
    });
  }
  [[nodiscard]] std::uint64_t largest(const Job& job, const NeighborSide& side) const {
    std::uint64_t most = 0;
    for (const std::uint32_t place : side.places) {
      if (counts == nullptr || types == nullptr || counts[place] <= 0 || !valid_type(job, types[place])) continue;
      most = std::max(most, bytes_in(counts[place], shape_of(job, types[place])));
    }
    return most;
  }
  void describe(const Job& job, const NeighborSide& side, Blocks& blocks) const {
    blocks.set_neighbors(side, buffer, [&](std::uint32_t place) {
      // The type of an empty block may be invalid.
      if (counts[place] == 0) return Blocks::Element{};
      return Blocks::Element{static_cast<std::int64_t>(counts[place]), static_cast<std::int64_t>(displacements[place]),
                             types[place], shape_of(job, types[place])};
    });
  }
};

template <class Side>
[[nodiscard]] bool fits(const Job& job, const Side& given, const NeighborSide& side) {
  return side.places.empty() || given.valid(job, side);
}

// Does a whole neighbor collective. True if `request` is set.
template <class Sent, class Received>
[[nodiscard]] bool offload_of_neighbors(Job& job, Form form, Collective collective, const Sent& sent,
                                        const Received& received, MPI_Comm communicator, MPI_Request* request) {
  if (goes_on_natively(job, collective, form, communicator)) return false;
  CallTimer timer(CallTimer::Kind::post);
  const Offload offload = offload_on(job, form, communicator, collective, std::nullopt);
  CommState* asked = offload.comm != nullptr ? offload.comm : offload.for_small_blocks();
  if (asked == nullptr) return false;
  const Neighbors* neighbors = asked->neighbors().of(communicator);
  if (neighbors == nullptr) return decline();
  const NeighborSide& any_order = neighbors->sources_in(NeighborOrder::in_turn);
  if (offload.comm == nullptr) {
    asked->dispatcher().note_largest_block(collective, received.largest(job, any_order));
    return false;
  }
  if (request == nullptr || !fits(job, sent, neighbors->destinations) || !fits(job, received, any_order)) {
    return decline();
  }
  const NeighborOrder order = any_order.repeats()
                                  ? native_order(job, neighbors->topology, collective, form == Form::blocking)
                                  : NeighborOrder::in_turn;
  Operation& operation = new_operation(collective, offload, false);
  sent.describe(job, neighbors->destinations, operation.send);
  received.describe(job, neighbors->sources_in(order), operation.receive);
  return offload_operation(job, timer, offload, operation, request);
}

}  // namespace outrigger::mpi
