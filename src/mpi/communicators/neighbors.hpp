// A rank's neighbors on a communicator with a topology: asked of the MPI at first use, and kept with the communicator's
// state.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "mpi/native/abi.hpp"
#include "mpi/types/neighbor_side.hpp"

namespace outrigger::mpi {

enum class Topology : std::uint8_t { none, cartesian, graph, distributed_graph };

// For a repeated neighbor: the order in which its blocks go to the receiver's places. MPIs read the standard
// differently (communicators/neighbor_order.hpp).
enum class NeighborOrder : std::uint8_t {
  in_turn,   // the first to the first
  reversed,  // the first to the last
  opposite,  // on a Cartesian grid: blocks that go down a dimension come from above
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

// For one communicator. Any thread.
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
