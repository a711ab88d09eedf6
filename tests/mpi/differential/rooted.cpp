// Gathers and scatters: the calls, and their native form with packed bytes.
#include <sched.h>

#include <vector>

#include "../programs/persistent_calls.hpp"
#include "operation.hpp"

namespace differential {
namespace {

constexpr int rubbish_count = -7;

void wait_patiently(MPI_Request request) {
  int done = 0;
  while (done == 0) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0) sched_yield();
  }
}

// Contiguous blocks of bytes.
struct PackedBlocks {
  std::vector<int> counts;
  std::vector<int> places;
  std::vector<char> bytes;
  explicit PackedBlocks(const std::vector<int>& block_bytes) : counts(block_bytes) {
    int end = 0;
    for (const int count : counts) {
      places.push_back(end);
      end += count;
    }
    bytes.resize(static_cast<std::size_t>(end) + 1);
  }
};

}  // namespace

template <class Count, class Displacement>
Operation::Rooted<Count, Displacement> Operation::rooted(const Place& from, const Place& to,
                                                         const std::vector<Count>& counts,
                                                         const std::vector<Displacement>& displacements,
                                                         const std::vector<Count>& to_counts,
                                                         const std::vector<Displacement>& to_displacements) const {
  Rooted<Count, Displacement> call;
  call.send_count = call.receive_count = rubbish_count;
  if (is_root() || plan_.gathers_at_root()) {
    call.send = from.address;
    call.send_type = handles_[0][0];
    call.send_counts = counts.data();
    call.send_displacements = displacements.data();
    if (!sends_in_place()) call.send_count = counts[0];
  }
  if ((is_root() || plan_.scatters()) && !receives_in_place()) {
    call.receive = to.address;
    call.receive_type = handles_[1][0];
    call.receive_counts = to_counts.data();
    call.receive_displacements = to_displacements.data();
    call.receive_count = to_counts[0];
  }
  if (receives_in_place()) call.receive = MPI_IN_PLACE;
  return call;
}

void Operation::start_rooted(const Place& from, const Place& to, MPI_Comm communicator, MPI_Request* request) {
  const Rooted<int, int> a = rooted(from, to);
  switch (plan_.call) {
    case Call::gather:
      MPI_Igather(a.send, a.send_count, a.send_type, a.receive, a.receive_count, a.receive_type, root(), communicator,
                  request);
      break;
    case Call::gatherv:
      MPI_Igatherv(a.send, a.send_count, a.send_type, a.receive, a.receive_counts, a.receive_displacements,
                   a.receive_type, root(), communicator, request);
      break;
    case Call::scatter:
      MPI_Iscatter(a.send, a.send_count, a.send_type, a.receive, a.receive_count, a.receive_type, root(), communicator,
                   request);
      break;
    default:
      MPI_Iscatterv(a.send, a.send_counts, a.send_displacements, a.send_type, a.receive, a.receive_count,
                    a.receive_type, root(), communicator, request);
  }
}

void Operation::start_rooted_large(const Place& from, const Place& to, MPI_Comm communicator, MPI_Request* request) {
#if MPI_VERSION >= 4
  for (std::size_t i = 0; i < 2; ++i) {
    const Side& side = i == 0 ? *from.side : *to.side;
    large_counts_[i].assign(side.counts.begin(), side.counts.end());
    large_displacements_[i].assign(side.displacements.begin(), side.displacements.end());
  }
  const Rooted<MPI_Count, MPI_Aint> a =
      rooted(from, to, large_counts_[0], large_displacements_[0], large_counts_[1], large_displacements_[1]);
  switch (plan_.call) {
    case Call::gather:
      MPI_Igather_c(a.send, a.send_count, a.send_type, a.receive, a.receive_count, a.receive_type, root(), communicator,
                    request);
      break;
    case Call::gatherv:
      MPI_Igatherv_c(a.send, a.send_count, a.send_type, a.receive, a.receive_counts, a.receive_displacements,
                     a.receive_type, root(), communicator, request);
      break;
    case Call::scatter:
      MPI_Iscatter_c(a.send, a.send_count, a.send_type, a.receive, a.receive_count, a.receive_type, root(),
                     communicator, request);
      break;
    default:
      MPI_Iscatterv_c(a.send, a.send_counts, a.send_displacements, a.send_type, a.receive, a.receive_count,
                      a.receive_type, root(), communicator, request);
  }
#else
  start_rooted(from, to, communicator, request);  // this MPI has no large-count forms
#endif
}

void Operation::run_blocking_rooted(MPI_Comm communicator, const Place& from, const Place& to) {
  handles_[0] = from.types;
  handles_[1] = to.types;
  const Rooted<int, int> a = rooted(from, to);
  switch (plan_.call) {
    case Call::gather:
      MPI_Gather(a.send, a.send_count, a.send_type, a.receive, a.receive_count, a.receive_type, root(), communicator);
      break;
    case Call::gatherv:
      MPI_Gatherv(a.send, a.send_count, a.send_type, a.receive, a.receive_counts, a.receive_displacements,
                  a.receive_type, root(), communicator);
      break;
    case Call::scatter:
      MPI_Scatter(a.send, a.send_count, a.send_type, a.receive, a.receive_count, a.receive_type, root(), communicator);
      break;
    default:
      MPI_Scatterv(a.send, a.send_counts, a.send_displacements, a.send_type, a.receive, a.receive_count, a.receive_type,
                   root(), communicator);
  }
}

void Operation::make_persistent_rooted(const Place& from, const Place& to, MPI_Comm communicator) {
  const Rooted<int, int> a = rooted(from, to);
  const persistent::Calls& of_mpi = persistent::calls();
  const MPI_Info info = MPI_INFO_NULL;
  switch (plan_.call) {
    case Call::gather:
      of_mpi.gather(a.send, a.send_count, a.send_type, a.receive, a.receive_count, a.receive_type, root(), communicator,
                    info, &persistent_);
      break;
    case Call::gatherv:
      of_mpi.gatherv(a.send, a.send_count, a.send_type, a.receive, a.receive_counts, a.receive_displacements,
                     a.receive_type, root(), communicator, info, &persistent_);
      break;
    case Call::scatter:
      of_mpi.scatter(a.send, a.send_count, a.send_type, a.receive, a.receive_count, a.receive_type, root(),
                     communicator, info, &persistent_);
      break;
    default:
      of_mpi.scatterv(a.send, a.send_counts, a.send_displacements, a.send_type, a.receive, a.receive_count,
                      a.receive_type, root(), communicator, info, &persistent_);
  }
}

void Operation::gather_at_root_packed() {
  const MPI_Comm communicator = communicator_->native;
  const Side& side = sends_in_place() ? receive_side_ : send_side_;
  const std::size_t own = sends_in_place() ? static_cast<std::size_t>(communicator_->rank) : 0;
  int length = 0;
  MPI_Pack_size(side.counts[own], side.type(own).get(), communicator, &length);
  std::vector<char> mine(static_cast<std::size_t>(length) + 1);
  int packed = 0;
  MPI_Pack(send_.base() + offset_of(side, own), side.counts[own], side.type(own).get(), mine.data(), length, &packed,
           communicator);
  std::vector<int> bytes;
  for (int source = 0; source < communicator_->size; ++source) {
    bytes.push_back(static_cast<int>(plan_.block(source, root()) * plan_.quantum) * unit_bytes(plan_.unit));
  }
  PackedBlocks all(bytes);
  MPI_Request request;
  MPI_Igatherv(mine.data(), packed, MPI_PACKED, all.bytes.data(), all.counts.data(), all.places.data(), MPI_PACKED,
               root(), communicator, &request);
  wait_patiently(request);
  for (std::size_t i = 0; is_root() && i < bytes.size(); ++i) {
    int position = all.places[i];
    MPI_Unpack(all.bytes.data(), static_cast<int>(all.bytes.size()), &position,
               expected_.base() + offset_of(receive_side_, i), receive_side_.counts[i], receive_side_.type(i).get(),
               communicator);
  }
}

void Operation::scatter_packed() {
  const MPI_Comm communicator = communicator_->native;
  std::vector<int> bytes;
  for (int to = 0; to < communicator_->size; ++to) {
    bytes.push_back(static_cast<int>(plan_.block(root(), to) * plan_.quantum) * unit_bytes(plan_.unit));
  }
  PackedBlocks all(bytes);
  for (std::size_t i = 0; is_root() && i < bytes.size(); ++i) {
    int position = all.places[i];
    MPI_Pack(send_.base() + offset_of(send_side_, i), send_side_.counts[i], send_side_.type(i).get(), all.bytes.data(),
             static_cast<int>(all.bytes.size()), &position, communicator);
  }
  const int length = bytes[static_cast<std::size_t>(communicator_->rank)];
  std::vector<char> mine(static_cast<std::size_t>(length) + 1);
  MPI_Request request;
  MPI_Iscatterv(all.bytes.data(), all.counts.data(), all.places.data(), MPI_PACKED, mine.data(), length, MPI_PACKED,
                root(), communicator, &request);
  wait_patiently(request);
  if (receives_in_place()) return;
  int position = 0;
  MPI_Unpack(mine.data(), length, &position, expected_.base() + offset_of(receive_side_, 0), receive_side_.counts[0],
             receive_side_.type(0).get(), communicator);
}

}  // namespace differential
