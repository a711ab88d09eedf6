// Lets reductions by halving and doubling serve any number of ranks p: the first 2 (p - 2^n) ranks form pairs. The even
// rank of a pair sends its vector to the odd one, which takes part for both.
//
// Source: Thakur et al. 2005 (alltoall_pairwise.cpp), section 4.5; MPICH, src/mpi/coll/iallreduce.
#pragma once

#include <bit>
#include <cstdint>

#include "sim/baselines/member.hpp"

namespace outrigger::sim::baselines {

class Fold {
 public:
  Fold(std::uint32_t rank, std::uint32_t size)
      : rank_(rank), left_(std::bit_floor(size)), pairs_(size - std::bit_floor(size)) {}

  [[nodiscard]] std::uint32_t left() const { return left_; }  // ranks that take part: 2^n
  [[nodiscard]] bool is_in_pair() const { return rank_ < 2 * pairs_; }
  [[nodiscard]] bool goes_on() const { return !is_in_pair() || rank_ % 2 == 1; }
  [[nodiscard]] std::uint32_t partner() const { return rank_ ^ 1U; }
  // Numbers of the ranks that take part.
  [[nodiscard]] std::uint32_t number() const { return is_in_pair() ? rank_ / 2 : rank_ - pairs_; }
  [[nodiscard]] std::uint32_t rank_of(std::uint32_t number) const {
    return number < pairs_ ? 2 * number + 1 : number + pairs_;
  }

 private:
  std::uint32_t rank_;
  std::uint32_t left_;
  std::uint32_t pairs_;
};

// Tags of a reduction's steps; rounds count from kFirstRound.
inline constexpr std::uint32_t kFolding = 0;
inline constexpr std::uint32_t kUnfolding = 1;
inline constexpr std::uint32_t kFirstRound = 2;

// The even rank of a pair sends its vector first and receives the result at the end.
inline void begin_folding(Member& member, const Fold& fold, std::uint64_t bytes, engine::Countdown& folded) {
  if (fold.goes_on()) {
    member.receive(fold.partner(), bytes, kFolding, folded);
  } else {
    member.send(fold.partner(), bytes, kFolding, folded);
  }
}
inline void begin_unfolding(Member& member, const Fold& fold, std::uint64_t bytes, engine::Countdown& unfolded) {
  if (fold.goes_on()) {
    member.send(fold.partner(), bytes, kUnfolding, unfolded);
  } else {
    member.receive(fold.partner(), bytes, kUnfolding, unfolded);
  }
}

}  // namespace outrigger::sim::baselines
