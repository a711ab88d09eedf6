// One random collective. All ranks draw it from the seed, except for the choices of each rank (types, their counts,
// displacements, buffers). It runs twice, on the communicator and on its native twin.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "buffers.hpp"
#include "communicators.hpp"
#include "datatypes.hpp"

namespace differential {

enum class Call { alltoall, alltoallv, alltoallw, allgather, allgatherv, bcast, gather, gatherv, scatter, scatterv };
constexpr int calls = 10;

// Values that are equal on all ranks of the group.
struct Plan {
  std::uint64_t seed = 0;
  Call call = Call::alltoall;
  bool in_place = false;
  UnitKind unit = UnitKind::byte;
  int quantum = 1;           // every block is a multiple of this many units
  std::int64_t longest = 0;  // quanta of the longest block
  std::int64_t shortest = 0;
  int empty_percent = 0;  // share of empty blocks, if they may differ
  bool typed = false;     // derived datatypes
  bool coarse = false;    // only with long pieces

  // `careful` avoids errors of the native MPIs of Debian 12.
  static Plan make(std::uint64_t seed, int group_size, std::int64_t max_bytes, bool careful);
  // For operations that stay native, with the MPI's errors: a group of one, or all if the test is `careful`.
  void keep_native_right();
  // Limits blocks to sizes that Open MPI 4.1 handles correctly from a rank to itself.
  void keep_small();
  // Quanta that rank `from` sends to rank `to`.
  [[nodiscard]] std::int64_t block(int from, int to) const;
  // All blocks have the same length.
  [[nodiscard]] bool regular() const {
    return call == Call::alltoall || call == Call::allgather || call == Call::bcast || call == Call::gather ||
           call == Call::scatter;
  }
  // All ranks get the same block of a rank.
  [[nodiscard]] bool gathers() const { return call == Call::allgather || call == Call::allgatherv; }
  // Each rank has a block for one rank, or gets one from it.
  [[nodiscard]] bool gathers_at_root() const { return call == Call::gather || call == Call::gatherv; }
  [[nodiscard]] bool scatters() const { return call == Call::scatter || call == Call::scatterv; }
  [[nodiscard]] bool rooted() const { return gathers_at_root() || scatters(); }
};

class Operation {
 public:
  Operation(const Plan& plan, const Communicator& communicator);

  void post(MPI_Request* request);
  // The same by the persistent form, which stays until it is freed. Then call run_again() any number of times, equal on
  // all ranks: collective and blocking. Nonblocking in a group of one, which is native: MPICH 4.0 returns finished
  // persistent requests again.
  void post_persistent(MPI_Request* request);
  [[nodiscard]] bool is_persistent() const { return persistent_ != MPI_REQUEST_NULL; }
  void run_again();
  void free_persistent();
  // Runs the same on the native twin, never in place nor to MPI_BOTTOM: collective and blocking.
  void run_native();
  // After run_native: receives once more by the blocking form, on the offloaded communicator.
  void run_blocking_form();
  struct Difference {
    std::string text;
    bool native_is_wrong;  // and the offloaded call is right
  };
  [[nodiscard]] std::optional<Difference> difference() const;
  [[nodiscard]] std::string describe() const;
  // To test the comparison.
  void spoil() { received_.base()[receive_side_.low] ^= std::byte{1}; }
  void spoil_native() { expected_.base()[receive_side_.low] ^= std::byte{1}; }

 private:
  // The arguments of one side: a block for each peer, or one for all (the send side of gathering calls).
  struct Side {
    std::vector<Datatype> types;     // of each block, or one for all
    std::vector<int> counts;         // of each block
    std::vector<int> displacements;  // in extents, for alltoallw in bytes
    MPI_Aint low = 0;                // bytes touched, relative to the buffer's base
    MPI_Aint high = 0;
    bool bottom = false;
    [[nodiscard]] const Datatype& type(std::size_t block) const { return types.size() == 1 ? types[0] : types[block]; }
  };
  // A buffer and types as arguments of a call.
  struct Place {
    const Side* side = nullptr;
    void* address = nullptr;
    std::vector<MPI_Datatype> types;
    std::size_t block = 0;  // the first block in use
  };
  Side make_side(Random& random, bool sending) const;
  Side make_columns(Random& random, const std::vector<std::int64_t>& quanta) const;
  void place_blocks(Random& random, bool sending, Side& side) const;
  // From the buffer's base to a block.
  [[nodiscard]] MPI_Aint offset_of(const Side& side, std::size_t block) const;
  // The same side at another place, for MPI_BOTTOM.
  [[nodiscard]] std::vector<Datatype> types_at(const Side& side, const Buffer& buffer) const;
  [[nodiscard]] Place sent_from() const;
  static Place place_in(const Side& side, void* base, const std::vector<Datatype>& absolute);
  void start(const Place& from, const Place& to, bool large, MPI_Comm communicator, MPI_Request* request);
  void make_persistent(const Place& from, const Place& to, MPI_Comm communicator);
  void start_large(const Place& from, const Place& to, MPI_Comm communicator, MPI_Request* request);
  void run_blocking(MPI_Comm communicator, const Place& from, const Place& to);
  [[nodiscard]] int root() const;
  [[nodiscard]] bool is_root() const { return root() == communicator_->rank; }
  // The send block is in the receive buffer, or the own block stays in the send buffer (rooted calls: at the root).
  [[nodiscard]] bool sends_in_place() const {
    return plan_.in_place && !plan_.scatters() && (!plan_.gathers_at_root() || is_root());
  }
  [[nodiscard]] bool receives_in_place() const { return plan_.in_place && plan_.scatters() && is_root(); }
  // No blocks on this side.
  [[nodiscard]] bool is_idle(bool sending) const;
  // This rank's side of a broadcast.
  [[nodiscard]] const Place& end(const Place& from, const Place& to) const { return is_root() ? from : to; }
  // Arguments of a gather or scatter; values that matter only at the root are invalid elsewhere.
  template <class Count, class Displacement>
  struct Rooted {
    const void* send = nullptr;
    Count send_count = 0;
    const Count* send_counts = nullptr;
    const Displacement* send_displacements = nullptr;
    MPI_Datatype send_type = MPI_DATATYPE_NULL;
    void* receive = nullptr;
    Count receive_count = 0;
    const Count* receive_counts = nullptr;
    const Displacement* receive_displacements = nullptr;
    MPI_Datatype receive_type = MPI_DATATYPE_NULL;
  };
  template <class Count, class Displacement>
  Rooted<Count, Displacement> rooted(const Place& from, const Place& to, const std::vector<Count>& counts,
                                     const std::vector<Displacement>& displacements,
                                     const std::vector<Count>& to_counts,
                                     const std::vector<Displacement>& to_displacements) const;
  [[nodiscard]] Rooted<int, int> rooted(const Place& from, const Place& to) const {
    return rooted(from, to, from.side->counts, from.side->displacements, to.side->counts, to.side->displacements);
  }
  void start_rooted(const Place& from, const Place& to, MPI_Comm communicator, MPI_Request* request);
  void start_rooted_large(const Place& from, const Place& to, MPI_Comm communicator, MPI_Request* request);
  void run_blocking_rooted(MPI_Comm communicator, const Place& from, const Place& to);
  void make_persistent_rooted(const Place& from, const Place& to, MPI_Comm communicator);
  void gather_at_root_packed();
  void scatter_packed();
  void gather_packed(const Place& from);
  void broadcast_packed();
  void correct_own_block();
  void run_native_patiently(const Place& from, const Place& to);
  // The bytes that this rank should have received. They follow from the seed.
  [[nodiscard]] Buffer due() const;
  [[nodiscard]] std::vector<char> packed_for(int receiver) const;

  Plan plan_;
  const Communicator* communicator_;
  Side send_side_;
  Side receive_side_;
  Buffer send_;  // in place: former contents of the receive buffer, for the native run
  Buffer received_;
  Buffer expected_;
  std::vector<Datatype> send_absolute_;
  std::vector<Datatype> receive_absolute_;
  std::vector<MPI_Datatype> handles_[2];  // must outlive the call
  MPI_Request persistent_ = MPI_REQUEST_NULL;
  bool large_form_ = false;
  bool blocking_reference_ = false;
  std::uint64_t send_content_ = 0;
  std::uint64_t receive_content_ = 0;
#if MPI_VERSION >= 4
  std::vector<MPI_Count> large_counts_[2];  // must outlive the call
  std::vector<MPI_Aint> large_displacements_[2];
#endif
};

}  // namespace differential
