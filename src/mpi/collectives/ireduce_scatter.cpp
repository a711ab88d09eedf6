// MPI_Reduce_scatter, MPI_Ireduce_scatter and MPI_Reduce_scatter_init.
#include <algorithm>
#include <numeric>
#include <span>

#include "mpi/collectives/reducing.hpp"

namespace outrigger::mpi {
namespace {

// The blocks of a vector, the same on all ranks of a communicator.
template <class Count>
struct ReducedBlocks {
  std::span<const Count> counts;  // nothing where there are none to look at
  std::uint32_t me = 0;

  [[nodiscard]] std::int64_t first_of(std::size_t rank) const {
    return std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(rank), std::int64_t{0});
  }
  [[nodiscard]] std::int64_t total() const { return first_of(counts.size()); }
  [[nodiscard]] std::int64_t mean() const {
    return counts.empty() ? 0 : total() / static_cast<std::int64_t>(counts.size());
  }
  [[nodiscard]] std::int64_t own() const { return counts.empty() ? 0 : static_cast<std::int64_t>(counts[me]); }
  [[nodiscard]] bool valid() const {
    return std::none_of(counts.begin(), counts.end(), [](Count count) { return count < 0; });
  }
};

template <class Count>
ReducedBlocks<Count> blocks_on(const Job& job, MPI_Comm communicator, const Count* counts) {
  const CommState* comm = state_of(job, communicator);
  if (comm == nullptr || counts == nullptr) return {};
  return {std::span(counts, comm->size()), comm->me().value()};
}

template <class Count>
bool offload_reduce_scatter(Job& job, Form form, const void* send_buffer, void* receive_buffer, const Count* counts,
                            MPI_Datatype type, MPI_Op operation, MPI_Comm communicator, MPI_Request* request) {
  const ReducedBlocks<Count> blocks = blocks_on(job, communicator, counts);
  const bool in_place = send_buffer == MPI_IN_PLACE;
  const auto is_valid = [&] {
    if (counts == nullptr || !blocks.valid()) return false;
    if (!valid_side(job, receive_buffer, in_place ? blocks.total() : blocks.own(), type)) return false;
    return in_place || (valid_side(job, send_buffer, blocks.total(), type) &&
                        !aliased(send_buffer, type, receive_buffer, type, blocks.own() != 0));
  };
  const auto sides_on = [&](const CommState& comm) -> std::optional<ReducedSides> {
    return ReducedSides{.from = send_buffer,
                        .sent = blocks.total(),
                        .to = receive_buffer,
                        .received = blocks.own(),
                        .in_place = reduces_in_place(send_buffer, receive_buffer, blocks.own() != 0),
                        .first = blocks.first_of(comm.me().value())};
  };
  const ReductionCall<std::int64_t> call{
      Collective::ireduce_scatter, form, blocks.mean(), type, operation, communicator};
  return offload_reduction(job, call, request, is_valid, sides_on);
}

}  // namespace

OUTRIGGER_ENTRY(Ireduce_scatter, 7, CountedNonblocking<CollectiveCall::reduce_scatter, &offload_reduce_scatter<int>>)
OUTRIGGER_ENTRY(Reduce_scatter, 6, CountedBlocking<CollectiveCall::reduce_scatter, &offload_reduce_scatter<int>>)
OUTRIGGER_PERSISTENT_ENTRY(Reduce_scatter_init, 8,
                           CountedPersistent<CollectiveCall::reduce_scatter, &offload_reduce_scatter<int>>)
#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(Ireduce_scatter_c, 7,
                CountedNonblocking<CollectiveCall::reduce_scatter, &offload_reduce_scatter<MPI_Count>, Counts::large>)
OUTRIGGER_ENTRY(Reduce_scatter_c, 6,
                CountedBlocking<CollectiveCall::reduce_scatter, &offload_reduce_scatter<MPI_Count>, Counts::large>)
OUTRIGGER_ENTRY(Reduce_scatter_init_c, 8,
                CountedPersistent<CollectiveCall::reduce_scatter, &offload_reduce_scatter<MPI_Count>, Counts::large>)
#endif

}  // namespace outrigger::mpi
