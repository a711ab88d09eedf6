// One random all-to-all: decided alike on all ranks from the seed, except for what MPI lets each rank choose (types,
// counts of them, displacements, buffers). It runs twice, on the communicator and on its native twin.
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

enum class Call { alltoall, alltoallv };

// What every rank of the group knows alike.
struct Plan {
  std::uint64_t seed = 0;
  Call call = Call::alltoall;
  bool in_place = false;
  UnitKind unit = UnitKind::byte;
  int quantum = 1;           // every block is a multiple of this many units
  std::int64_t longest = 0;  // quanta of the longest block
  int empty_percent = 0;     // how many of the blocks of alltoallv are empty
  bool typed = false;        // derived datatypes
  bool coarse = false;       // of long pieces only

  // `careful` leaves out what the native MPIs of Debian 12 do wrong themselves.
  static Plan make(std::uint64_t seed, int group_size, std::int64_t max_bytes, bool careful);
  // Limits blocks to what Open MPI 4.1 gets right when a rank sends to itself.
  void keep_small();
  // Quanta that rank `from` sends to rank `to`.
  [[nodiscard]] std::int64_t block(int from, int to) const;
};

class Operation {
 public:
  Operation(const Plan& plan, const Communicator& communicator);

  void post(MPI_Request* request);
  // Runs the same on the native twin, never in place nor to MPI_BOTTOM: collective and blocking.
  void run_native();
  // Says what is different, if anything is.
  [[nodiscard]] std::optional<std::string> difference() const;
  [[nodiscard]] std::string describe() const;
  // Changes a byte of what was received, to see that it is noticed.
  void spoil() { received_.base()[receive_side_.low] ^= std::byte{1}; }

 private:
  // The arguments of one side.
  struct Side {
    Datatype type;
    std::vector<int> counts;
    std::vector<int> displacements;
    MPI_Aint low = 0;  // bytes touched, relative to the buffer's base
    MPI_Aint high = 0;
    bool bottom = false;
  };
  Side make_side(Random& random, bool sending) const;
  Side make_columns(Random& random, const std::vector<std::int64_t>& quanta) const;
  void place_blocks(Random& random, bool sending, Side& side) const;
  // The same side at another place, for MPI_BOTTOM.
  [[nodiscard]] Datatype type_at(const Side& side, const Buffer& buffer) const;
  void start(const Side& from, bool large, MPI_Comm communicator, const void* send, MPI_Datatype send_type,
             void* receive, MPI_Datatype receive_type, MPI_Request* request);
  void correct_own_block(const Side& from);
  void run_native_patiently(const Side& from, const void* send, MPI_Datatype send_type, void* receive,
                            MPI_Datatype receive_type);

  Plan plan_;
  const Communicator* communicator_;
  Side send_side_;
  Side receive_side_;
  Buffer send_;  // in place: what the receive buffer held, for the native run
  Buffer received_;
  Buffer expected_;
  Datatype send_absolute_;
  Datatype receive_absolute_;
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
