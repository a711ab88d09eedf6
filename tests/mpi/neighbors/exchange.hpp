// One random neighbor collective. Both ends of an edge know its length. Each rank chooses the rest for itself: types,
// their counts, displacements, buffers.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "../differential/buffers.hpp"
#include "../differential/datatypes.hpp"
#include "topologies.hpp"

namespace neighbors {

enum class Call { alltoall, alltoallv, alltoallw, allgather, allgatherv };
constexpr int calls = 5;

// The forms of a call. An MPI's forms may differ in the order of repeated neighbors, so each form is compared with the
// same native form.
enum class Form { nonblocking, blocking, persistent, large };

struct Plan {
  std::uint64_t seed = 0;
  Call call = Call::alltoall;
  differential::UnitKind unit = differential::UnitKind::byte;
  int quantum = 1;           // every block is a multiple of this many units
  std::int64_t longest = 0;  // quanta of the longest block
  int empty_percent = 0;     // of the blocks, if they may differ
  bool typed = false;        // derived datatypes

  static Plan make(std::uint64_t seed, std::int64_t max_bytes, bool careful);
  [[nodiscard]] bool gathers() const { return call == Call::allgather || call == Call::allgatherv; }
  [[nodiscard]] bool regular() const { return call == Call::alltoall || call == Call::allgather; }
  // Quanta that go along an edge.
  [[nodiscard]] std::int64_t block(int from, int to) const;
};

class Exchange {
 public:
  Exchange(const Plan& plan, const Topology& topology);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Blocking ones have ended then, persistent ones are started.
  void run(Form form, MPI_Request* request);
  // Receives the expected bytes natively. Collective over the twin.
  void expect(Form form);
  // Between received and expected bytes.
  [[nodiscard]] std::optional<std::string> difference() const;
  // Before another start.
  void forget() { received_.fill(receive_content_); }
  [[nodiscard]] std::string describe(Form form) const;
  void spoil() { received_.base()[0] ^= std::byte{1}; }

 private:
  struct Side {
    std::vector<differential::Datatype> types;  // of each block, or one for all
    std::vector<int> counts;                    // of each
    std::vector<int> displacements;             // in extents
    std::vector<MPI_Aint> offsets;              // in bytes
    std::vector<MPI_Datatype> handles;
    MPI_Aint low = 0;
    MPI_Aint high = 1;
  };
  Side make_side(differential::Random& random, bool sending) const;
  void place(differential::Random& random, bool sending, Side& side) const;
  // For each receive place: the index of its block in the source's list.
  [[nodiscard]] std::vector<int> origins(bool blocking) const;
  [[nodiscard]] static MPI_Aint offset_in(const Side& side, std::size_t block, bool in_bytes);
  void start_nonblocking(MPI_Comm communicator, void* to, MPI_Request* request);
  void run_blocking(MPI_Comm communicator, void* to);
  void start_persistent(MPI_Comm communicator, void* to, MPI_Request* request);
  void start_large(MPI_Comm communicator, void* to, MPI_Request* request);

  Plan plan_;
  const Topology* topology_;
  Side send_side_;
  Side receive_side_;
  differential::Buffer send_;
  differential::Buffer received_;
  differential::Buffer expected_;
  std::uint64_t receive_content_ = 0;
  std::vector<MPI_Count> large_counts_[2];  // must outlive the call
  std::vector<MPI_Aint> large_displacements_[2];
};

}  // namespace neighbors
