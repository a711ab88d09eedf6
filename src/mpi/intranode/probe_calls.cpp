#include "mpi/intranode/probe_calls.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "mpi/native/real.hpp"

namespace outrigger::mpi {

std::size_t vectors_for(const TeamArguments& call, std::uint32_t members) {
  std::int64_t least = call.send.count;
  if (call.call == CollectiveCall::reduce_scatter || call.call == CollectiveCall::reduce_scatter_block) {
    for (std::uint32_t member = 0; member < members; ++member) {
      const std::int64_t count = call.count_at(call.receive, member);
      if (count > 0) least = std::min(least, count);
    }
  }
  return std::clamp<std::size_t>(64 / static_cast<std::size_t>(least), 4, 64);
}

std::vector<int> counts_of(const TeamArguments& call, std::uint32_t members) {
  std::vector<int> counts(members);
  for (std::uint32_t member = 0; member < members; ++member) {
    counts[member] = static_cast<int>(call.count_at(call.receive, member));
  }
  return counts;
}

namespace {

// The MPI's own calls of one kind.
class NativeCalls {
 public:
  NativeCalls(MPI_Comm comm, const TeamArguments& call, const TeamPlace& team)
      : comm_(comm),
        call_(call),
        is_root_(std::cmp_equal(call.root, team.rank)),
        bytes_(static_cast<std::size_t>(call.send.count) * call.reduction->element_bytes()),
        counts_(counts_of(call, team.size)) {}

  [[nodiscard]] bool operator()(const std::byte* contribution, std::byte* result) {
    // Either half of the calls, without a period: probes come in all periods.
    const bool in_place = std::popcount(made_++) % 2 != 0 && is_probed_in_place(call_);
    const bool is_here = in_place && (call_.call != CollectiveCall::reduce || is_root_);
    if (is_here) std::memcpy(result, contribution, bytes_);
    return make(is_here ? MPI_IN_PLACE : static_cast<const void*>(contribution), result) == MPI_SUCCESS;
  }

 private:
  [[nodiscard]] int make(const void* from, void* into) const {
    const auto count = static_cast<int>(call_.send.count);
    const MPI_Datatype type = call_.send.type;
    const MPI_Op operation = call_.operation;
    switch (call_.call) {
      case CollectiveCall::allreduce: return real().Allreduce(from, into, count, type, operation, comm_);
      case CollectiveCall::reduce: return real().Reduce(from, into, count, type, operation, call_.root, comm_);
      case CollectiveCall::scan: return real().Scan(from, into, count, type, operation, comm_);
      case CollectiveCall::exscan: return real().Exscan(from, into, count, type, operation, comm_);
      case CollectiveCall::reduce_scatter:
        return real().Reduce_scatter(from, into, counts_.data(), type, operation, comm_);
      case CollectiveCall::reduce_scatter_block:
        return real().Reduce_scatter_block(from, into, counts_.front(), type, operation, comm_);
      default: return MPI_ERR_OTHER;
    }
  }

  MPI_Comm comm_;
  const TeamArguments& call_;
  bool is_root_;
  std::size_t bytes_;
  std::vector<int> counts_;
  std::uint32_t made_ = 0;
};

}  // namespace

intranode::NativeReduction native_of(MPI_Comm comm, const TeamArguments& call, const TeamPlace& team) {
  return [calls = NativeCalls(comm, call, team)](const std::byte* contribution, std::byte* result) mutable {
    return calls(contribution, result);
  };
}

bool is_probed_in_place([[maybe_unused]] const TeamArguments& call) {
#if defined(OUTRIGGER_ABI_OPENMPI)
  return true;
#else
  return call.call == CollectiveCall::reduce ? call.root == 0 : call.call != CollectiveCall::reduce_scatter;
#endif
}

}  // namespace outrigger::mpi
