#include "mpi/communicators/neighbor_order.hpp"

#include <array>
#include <atomic>
#include <mutex>
#include <numeric>
#include <optional>

#include "mpi/job/job.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/real.hpp"

namespace outrigger::mpi {
namespace {

constexpr std::size_t kBlocks = 4;  // with fewer, two orders are the same
using Bytes = std::array<unsigned char, kBlocks>;

constexpr std::array<Bytes, kNeighborOrders> kReceived{Bytes{0, 1, 2, 3}, Bytes{3, 2, 1, 0}, Bytes{1, 0, 3, 2}};

// A communicator in which this rank is its own neighbor four times. No other rank takes part.
std::optional<MPI_Comm> neighbor_of_itself(const Job& job, Topology topology) {
  std::array<int, 2> lengths{1, 1};
  std::array<int, 2> periodic{1, 1};
  std::array<int, 1> degree{kBlocks};
  std::array<int, kBlocks> edges{};
  std::array<int, kBlocks> weights{1, 1, 1, 1};
  constexpr int kDegree = kBlocks;
  MPI_Comm comm = constants().comm_null;
  int code = MPI_ERR_TOPOLOGY;
  switch (topology) {
    case Topology::none: break;
    case Topology::cartesian:
      code = real().Cart_create(job.packing_comm, 2, lengths.data(), periodic.data(), 0, &comm);
      break;
    case Topology::graph: code = real().Graph_create(job.packing_comm, 1, degree.data(), edges.data(), 0, &comm); break;
    case Topology::distributed_graph:
      code = real().Dist_graph_create_adjacent(job.packing_comm, kDegree, edges.data(), weights.data(), kDegree,
                                               edges.data(), weights.data(), constants().info_null, 0, &comm);
      break;
  }
  return code == MPI_SUCCESS && comm != constants().comm_null ? std::optional(comm) : std::nullopt;
}

bool exchange(MPI_Comm comm, Collective collective, bool blocking, const Bytes& sent, Bytes& received) {
  const MPI_Datatype byte = constants().byte;
  std::array<int, kBlocks> counts{1, 1, 1, 1};
  std::array<int, kBlocks> displacements{0, 1, 2, 3};
  std::array<MPI_Aint, kBlocks> offsets{0, 1, 2, 3};
  std::array<MPI_Datatype, kBlocks> types{byte, byte, byte, byte};
  MPI_Request request = constants().request_null;
  int code = MPI_ERR_OTHER;
  if (collective == Collective::ineighbor_alltoall) {
    code = blocking ? real().Neighbor_alltoall(sent.data(), 1, byte, received.data(), 1, byte, comm)
                    : real().Ineighbor_alltoall(sent.data(), 1, byte, received.data(), 1, byte, comm, &request);
  } else if (collective == Collective::ineighbor_alltoallv) {
    code = blocking
               ? real().Neighbor_alltoallv(sent.data(), counts.data(), displacements.data(), byte, received.data(),
                                           counts.data(), displacements.data(), byte, comm)
               : real().Ineighbor_alltoallv(sent.data(), counts.data(), displacements.data(), byte, received.data(),
                                            counts.data(), displacements.data(), byte, comm, &request);
  } else if (collective == Collective::ineighbor_alltoallw) {
    code = blocking
               ? real().Neighbor_alltoallw(sent.data(), counts.data(), offsets.data(), types.data(), received.data(),
                                           counts.data(), offsets.data(), types.data(), comm)
               : real().Ineighbor_alltoallw(sent.data(), counts.data(), offsets.data(), types.data(), received.data(),
                                            counts.data(), offsets.data(), types.data(), comm, &request);
  }
  if (code != MPI_SUCCESS) return false;
  return blocking || real().Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

NeighborOrder ask_native(const Job& job, Topology topology, Collective collective, bool blocking) {
  const std::optional<MPI_Comm> made = neighbor_of_itself(job, topology);
  if (!made) return NeighborOrder::in_turn;
  MPI_Comm comm = *made;
  Bytes sent{};
  Bytes received{};
  std::iota(sent.begin(), sent.end(), static_cast<unsigned char>(0));
  NeighborOrder found = NeighborOrder::in_turn;
  if (exchange(comm, collective, blocking, sent, received)) {
    for (std::size_t order = 0; order < kNeighborOrders; ++order) {
      if (received == kReceived[order]) found = static_cast<NeighborOrder>(order);
    }
  }
  real().Comm_free(&comm);
  return found;
}

// By collective, topology and form; 0: not known yet.
constexpr std::size_t kExchanges = 3;  // with different blocks
constexpr std::size_t kTopologies = 4;
constinit std::array<std::atomic<std::uint8_t>, kExchanges * kTopologies * 2> known_orders{};
constinit std::mutex asking;  // collectives on one communicator

}  // namespace

NeighborOrder native_order(const Job& job, Topology topology, Collective collective, bool blocking) {
  const std::size_t exchanges = index_of(collective) - index_of(Collective::ineighbor_alltoall);
  if (exchanges >= kExchanges) return NeighborOrder::in_turn;
  std::atomic<std::uint8_t>& known =
      known_orders[(exchanges * kTopologies + static_cast<std::size_t>(topology)) * 2 + (blocking ? 1 : 0)];
  std::uint8_t order = known.load(std::memory_order_acquire);
  if (order == 0) {
    const std::scoped_lock lock(asking);
    order = static_cast<std::uint8_t>(static_cast<std::uint8_t>(ask_native(job, topology, collective, blocking)) + 1);
    known.store(order, std::memory_order_release);
  }
  return static_cast<NeighborOrder>(order - 1);
}

}  // namespace outrigger::mpi
