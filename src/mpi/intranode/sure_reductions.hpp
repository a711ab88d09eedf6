// Reductions in the MPI's order of which each member combines all contributions. So all come to the same about the bits
// of the result (sum_tree.hpp), without another step.
//
// Thread rule: the team's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "intranode/combine.hpp"
#include "mpi/intranode/probe_calls.hpp"
#include "mpi/intranode/rank_team.hpp"
#include "mpi/intranode/team_arguments.hpp"
#include "mpi/intranode/team_orders.hpp"
#include "protocol/collective_calls.hpp"

namespace outrigger::mpi {

// Longer ones, but for an allreduce, take less time with a step in which members exchange how sure they are.
inline constexpr std::uint64_t kCombinedByAll = intranode::PrefixCombine::kMostBytes;

// `bytes`: of the whole vector. The same at all members.
[[nodiscard]] inline bool are_sure_alone(const intranode::Team& team, const TeamArguments& call, std::uint64_t bytes) {
  if (!team.all_combine_all(bytes)) return false;
  if (call.call == CollectiveCall::allreduce) return true;
  return bytes <= kCombinedByAll && is_probed_in_place(call);
}

// Members whose contributions are in the member's result.
[[nodiscard]] inline std::uint32_t combined_by(CollectiveCall call, const TeamPlace& team) {
  if (call == CollectiveCall::scan) return team.rank + 1;
  return call == CollectiveCall::exscan ? team.rank : team.size;
}

// One of them, where are_sure_alone().
class SureReduction {
  using Outcome = intranode::Outcome;

 public:
  SureReduction(RankTeam& ranks, const TeamArguments& call, const intranode::SumOrder& order,
                std::span<const std::byte> mine)
      : ranks_(ranks), call_(call), order_(order), mine_(mine) {}

  // `result` overlaps no contribution. It is left as it is where the member gets none. `collective`: the call's, as a
  // constant where it is one.
  [[gnu::always_inline]] Outcome run(CollectiveCall collective, std::byte* result) {
    switch (collective) {
      case CollectiveCall::allreduce: return combine(collective, order_, result);
      case CollectiveCall::reduce: return reduce(result);
      case CollectiveCall::scan:
      case CollectiveCall::exscan: return scan(collective, result);
      default: return reduce_scatter(collective, result);
    }
  }
  // The same at all members.
  [[nodiscard]] bool asks_native() const { return asks_native_; }

 private:
  using Whole = std::array<std::byte, kCombinedByAll>;

  [[gnu::always_inline]] Outcome combine(CollectiveCall collective, const intranode::SumOrder& order, std::byte* into) {
    return combine(collective, intranode::OrderCombine(*call_.reduction, order), into);
  }
  template <class AnyCombine>
  [[gnu::always_inline]] Outcome combine(CollectiveCall collective, const AnyCombine& how, std::byte* into) {
    const auto root = static_cast<std::uint32_t>(call_.root);
    const Outcome outcome = ranks_.team().combine_by_all(collective, root, mine_, into, how);
    asks_native_ = how.asks_native();
    return outcome;
  }
  [[gnu::always_inline]] Outcome reduce(std::byte* result) {
    if (std::cmp_equal(call_.root, ranks_.rank())) return combine(CollectiveCall::reduce, order_, result);
    return discard(CollectiveCall::reduce, order_);
  }
  [[gnu::noinline]] Outcome discard(CollectiveCall collective, const intranode::SumOrder& order) {
    alignas(64) Whole whole;
    return combine(collective, order, whole.data());
  }
  Outcome scan(CollectiveCall collective, std::byte* result) {
    const std::uint32_t members = combined_by(collective, ranks_.place());
    const std::uint32_t most = collective == CollectiveCall::exscan ? ranks_.size() - 1 : ranks_.size();
    if (members == most) return combine(collective, order_, result);
    const intranode::SumOrder& all = ranks_.rank_order(most);
    if (members != 0) return combine(collective, intranode::PrefixCombine(*call_.reduction, order_, all), result);
    return discard(collective, all);
  }
  Outcome reduce_scatter(CollectiveCall collective, std::byte* result) {
    alignas(64) Whole whole;
    const Outcome outcome = combine(collective, order_, whole.data());
    std::int64_t first = 0;
    for (std::uint32_t member = 0; member < ranks_.rank(); ++member) first += call_.count_at(call_.receive, member);
    const std::size_t element = call_.reduction->element_bytes();
    const auto own = static_cast<std::size_t>(call_.count_at(call_.receive, ranks_.rank())) * element;
    if (own != 0) std::memcpy(result, whole.data() + static_cast<std::size_t>(first) * element, own);
    return outcome;
  }

  RankTeam& ranks_;
  const TeamArguments& call_;
  const intranode::SumOrder& order_;
  std::span<const std::byte> mine_;
  bool asks_native_ = false;
};

}  // namespace outrigger::mpi
