// A rank's neighbors on a communicator with a topology, as the MPI says who they are: asked once, when it is first
// needed, and kept with the communicator's state.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "mpi/native/abi.hpp"
#include "mpi/types/neighbor_side.hpp"

namespace outrigger::mpi {

enum class Topology : std::uint8_t { none, cartesian, graph, distributed_graph };

// Where a rank is a neighbor several times: which of its blocks goes to which place at the receiver. MPI describes all,
// but by no words that each MPI reads alike (communicators/neighbor_order.hpp).
enum class NeighborOrder : std::uint8_t {
  in_turn,   // the first to the first
  reversed,  // the first to the last
  opposite,  // on a Cartesian grid: what goes down a dimension comes from above
};
inline constexpr std::size_t kNeighborOrders = 3;

struct Neighbors {
  Topology topology = Topology::none;
  NeighborSide destinations;
  std::array<NeighborSide, kNeighborOrders> sources;  // by NeighborOrder

  // Without repeated sources the order makes no difference.
  [[nodiscard]] const NeighborSide& sources_in(NeighborOrder order) const {
    return sources[static_cast<std::size_t>(order)];
  }
};

// Of one communicator. Any thread.
class KnownNeighbors {
 public:
  KnownNeighbors() = default;
  KnownNeighbors(const KnownNeighbors&) = delete;
  KnownNeighbors& operator=(const KnownNeighbors&) = delete;
  ~KnownNeighbors() { delete known_.load(std::memory_order_relaxed); }

  // nullptr: it has no topology. `comm` is the communicator itself. Lives as long as this.
  [[nodiscard]] const Neighbors* of(MPI_Comm comm);

 private:
  std::atomic<const Neighbors*> known_ = nullptr;
};

}  // namespace outrigger::mpi
