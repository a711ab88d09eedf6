// A call like the last one of its collective, which the team does with the program's buffers as they are
// (PlainBytes): nothing of it is looked at again.
//
// Thread rule: the team's.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>

#include "intranode/combine.hpp"
#include "intranode/member_blocks.hpp"
#include "mpi/intranode/rank_team.hpp"
#include "mpi/intranode/sure_reductions.hpp"
#include "protocol/collective_calls.hpp"

namespace outrigger::mpi {

[[nodiscard]] inline bool overlap(std::span<const std::byte> one, std::span<const std::byte> other) {
  return one.data() < other.data() + other.size() && other.data() < one.data() + one.size();
}

// After RankTeam::begins_again() has said: by ranks.
template <CollectiveCall collective>
class PlainCall {
  using Blocks = intranode::Blocks;
  using Outcome = intranode::Outcome;

 public:
  // `entry`: of the MPI's order, if it matters.
  PlainCall(RankTeam& ranks, const RankTeam::LastCall& call, const intranode::OrderTable::Entry* entry)
      : ranks_(ranks),
        call_(call.arguments),
        bytes_(*call.plain),
        entry_(entry),
        from_(address_of(call_.send)),
        into_(address_of(call_.receive)),
        last_(call) {}

  Outcome run() {
    intranode::Team& team = ranks_.team();
    if constexpr (collective == CollectiveCall::barrier) {
      return team.barrier();
    } else if constexpr (collective == CollectiveCall::bcast) {
      return team.broadcast({from_, bytes_.sent}, root());
    } else if constexpr (collective == CollectiveCall::allgather) {
      return team.allgather({from_, bytes_.sent}, Blocks::regular(into_, bytes_.received));
    } else if constexpr (collective == CollectiveCall::alltoall) {
      return team.alltoall(Blocks::regular(from_, bytes_.sent), Blocks::regular(into_, bytes_.received));
    } else if constexpr (collective == CollectiveCall::gather) {
      return team.gather({from_, bytes_.sent}, at_root(into_, bytes_.received), root());
    } else if constexpr (collective == CollectiveCall::scatter) {
      return team.scatter(at_root(from_, bytes_.sent), {into_, bytes_.received}, root());
    } else if constexpr (collective == CollectiveCall::allgatherv) {
      return team.allgather({from_, bytes_.sent}, last_.into.at(into_));
    } else if constexpr (collective == CollectiveCall::gatherv) {
      return team.gatherv({from_, bytes_.sent}, is_root() ? last_.into.at(into_) : Blocks{}, root());
    } else if constexpr (collective == CollectiveCall::scatterv) {
      return team.scatterv(is_root() ? last_.from.at(from_) : Blocks{}, {into_, bytes_.received}, root());
    } else if constexpr (is_reduction(collective)) {
      return reduction();
    } else {
      return team.alltoallv(last_.from.at(from_), last_.into.at(into_));
    }
  }
  // All members come to the same: the call remains to be done natively. Buffers have what the program gave.
  [[nodiscard]] bool asks_native() const { return asks_native_; }

 private:
  [[nodiscard]] static std::byte* address_of(const TeamSide& side) {
    return static_cast<std::byte*>(const_cast<void*>(side.buffer));
  }
  [[nodiscard]] std::uint32_t root() const { return static_cast<std::uint32_t>(call_.root); }
  [[nodiscard]] bool is_root() const { return root() == ranks_.rank(); }
  [[nodiscard]] Blocks at_root(std::byte* base, std::uint64_t each) const {
    return is_root() ? Blocks::regular(base, each) : Blocks{};
  }
  [[nodiscard]] bool receives() const {
    if constexpr (collective == CollectiveCall::reduce) return is_root();
    return collective != CollectiveCall::exscan || ranks_.rank() != 0;
  }
  // Contributions are kept until the result is sure.
  Outcome reduction() {
    const std::span<const std::byte> mine{call_.send.in_place() ? into_ : from_, bytes_.sent};
    const std::span<std::byte> result{into_, bytes_.received};
    if (entry_ == nullptr) return reduce(mine);
    if (receives() && !overlap(mine, result)) return reduce_surely(mine, into_);
    std::byte* const apart = ranks_.scratch(1, result.size());
    const Outcome outcome = reduce_surely(mine, apart);
    if (receives() && !asks_native_) std::memcpy(into_, apart, result.size());
    ranks_.give_back_scratch();
    return outcome;
  }
  Outcome reduce_surely(std::span<const std::byte> mine, std::byte* result) {
    SureReduction sure(ranks_, call_, *entry_->order, mine);
    const Outcome outcome = sure.run(collective, result);
    asks_native_ = sure.asks_native();
    return outcome;
  }
  // In any order.
  Outcome reduce(std::span<const std::byte> mine) {
    const std::uint32_t members = std::max(combined_by(collective, ranks_.place()), 1U);
    const intranode::OrderCombine combine(*call_.reduction, ranks_.rank_order(members));
    intranode::Team& team = ranks_.team();
    if constexpr (collective == CollectiveCall::allreduce) return team.allreduce(mine, into_, combine);
    if constexpr (collective == CollectiveCall::reduce) return team.reduce(mine, into_, combine, root());
    if constexpr (collective == CollectiveCall::scan) return team.scan(mine, into_, combine);
    if constexpr (collective == CollectiveCall::exscan) return team.exscan(mine, into_, combine);
    std::array<std::uint64_t, intranode::kMostMembers> blocks;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    const std::span bytes = std::span(blocks).first(ranks_.size());
    std::ranges::fill(bytes, bytes_.received);
    return team.reduce_scatter(mine.data(), bytes, into_, combine);
  }

  RankTeam& ranks_;
  const TeamArguments& call_;
  const PlainBytes& bytes_;
  const intranode::OrderTable::Entry* entry_;
  std::byte* from_;
  std::byte* into_;
  const RankTeam::LastCall& last_;
  bool asks_native_ = false;
};

// The report's part of such a call: by ranks, or native as it has NaNs.
void note_again(const RankTeam::LastCall& call, bool by_ranks);

// Returns the call's MPI error code. Nothing: the call remains to be done natively, by all ranks.
template <CollectiveCall collective>
[[nodiscard]] std::optional<int> perform_again(RankTeam& ranks, RankTeam::LastCall& call,
                                               intranode::OrderTable::Entry* entry, MPI_Comm comm) {
  PlainCall<collective> plain(ranks, call, entry);
  if (plain.run() != intranode::Outcome::done) [[unlikely]]
    return ranks.fail(comm, collective);
  if constexpr (has_seen_sizes(collective)) ranks.see_sizes(call);
  if (observing()) [[unlikely]]
    note_again(call, !plain.asks_native());
  if (!plain.asks_native()) [[likely]]
    return MPI_SUCCESS;
  intranode::OrderTable::asked(*entry);
  return std::nullopt;
}

}  // namespace outrigger::mpi
