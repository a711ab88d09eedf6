// Bytes that a call's arguments describe. Only for calls that the MPI has accepted: arrays of counts are read.
#include <cstddef>

#include "mpi/native/constants.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/report/call_count.hpp"

namespace outrigger::mpi {
namespace {

std::uint64_t bytes_of_element(MPI_Datatype type) {
  MPI_Count bytes = 0;
  if (type == constants().datatype_null) return 0;
  real().Type_size_x(type, &bytes);
  return bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

// Number of ranks that a rank of the communicator sends to.
std::size_t peers_of(MPI_Comm comm) {
  int inter = 0;
  int size = 0;
  real().Comm_test_inter(comm, &inter);
  inter != 0 ? real().Comm_remote_size(comm, &size) : real().Comm_size(comm, &size);
  return static_cast<std::size_t>(size);
}

int own_rank_in(MPI_Comm comm) {
  int rank = 0;
  real().Comm_rank(comm, &rank);
  return rank;
}

std::size_t neighbors_of(MPI_Comm comm) {
  int topology = MPI_UNDEFINED;
  int count = 0;
  int sources = 0;
  int weighted = 0;
  real().Topo_test(comm, &topology);
  if (topology == MPI_CART) {
    real().Cartdim_get(comm, &count);
    count *= 2;
  } else if (topology == MPI_GRAPH) {
    real().Graph_neighbors_count(comm, own_rank_in(comm), &count);
  } else if (topology == MPI_DIST_GRAPH) {
    real().Dist_graph_neighbors_count(comm, &sources, &count, &weighted);
  }
  return static_cast<std::size_t>(count);
}

// The arguments that describe the sent data.
struct Arguments {
  Word count;
  Word type;
  bool large;

  [[nodiscard]] std::uint64_t count_alone() const {
    return large ? static_cast<std::uint64_t>(count) : static_cast<std::uint64_t>(static_cast<int>(count));
  }
  [[nodiscard]] std::uint64_t count_at(std::size_t i) const {
    return large ? static_cast<std::uint64_t>(argument<const MPI_Count*>(count)[i])
                 : static_cast<std::uint64_t>(argument<const int*>(count)[i]);
  }
  [[nodiscard]] MPI_Datatype type_at(std::size_t i) const { return argument<const MPI_Datatype*>(type)[i]; }
  [[nodiscard]] std::uint64_t bytes_of_type() const { return bytes_of_element(argument<MPI_Datatype>(type)); }

  [[nodiscard]] std::uint64_t of_counts(std::size_t peers) const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < peers; ++i) sum += count_at(i);
    return sum == 0 ? 0 : sum * bytes_of_type();
  }
  [[nodiscard]] std::uint64_t of_counts_and_types(std::size_t peers) const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < peers; ++i) {
      if (count_at(i) != 0) sum += count_at(i) * bytes_of_element(type_at(i));
    }
    return sum;
  }
  [[nodiscard]] std::uint64_t of_one(std::uint64_t counted, std::size_t times) const {
    return counted == 0 ? 0 : counted * times * bytes_of_type();
  }
};

}  // namespace

std::uint64_t bytes_of_call(CollectiveCall call, std::span<const Word> words, bool large_counts) {
  const CallArguments places = arguments_of(call);
  const auto word = [&](std::int8_t place) { return words[static_cast<std::size_t>(place)]; };
  const auto comm = argument<MPI_Comm>(word(places.comm));
  const bool in_place = places.buffer >= 0 && argument<const void*>(word(places.buffer)) == MPI_IN_PLACE;
  const CallSide& side = in_place ? places.in_place : places.usual;
  const Arguments named{word(side.count), word(side.type), large_counts};
  switch (side.extent) {
    case CallExtent::nothing: return 0;
    case CallExtent::once: return named.of_one(named.count_alone(), 1);
    case CallExtent::own_of_counts: return named.of_one(named.count_at(static_cast<std::size_t>(own_rank_in(comm))), 1);
    case CallExtent::peers: return named.of_one(named.count_alone(), peers_of(comm));
    case CallExtent::counts: return named.of_counts(peers_of(comm));
    case CallExtent::counts_and_types: return named.of_counts_and_types(peers_of(comm));
    case CallExtent::neighbors: return named.of_one(named.count_alone(), neighbors_of(comm));
    case CallExtent::neighbor_counts: return named.of_counts(neighbors_of(comm));
    case CallExtent::neighbor_counts_and_types: return named.of_counts_and_types(neighbors_of(comm));
  }
  return 0;
}

}  // namespace outrigger::mpi
