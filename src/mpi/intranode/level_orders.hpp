// Sums in two levels with the bits of the MPI, on a communicator that spans nodes. Each node adds the numbers of its
// ranks in an order of theirs. Then the MPI adds the nodes' sums on the leaders' communicator (nodes_team.hpp).
//
// That gives the MPI's bits if the MPI, too, adds the numbers of each node first, and the nodes' sums as it does on the
// leaders' communicator. MPIs that know the nodes do so; recursive doubling does if each node has a power of two of
// neighboring ranks. Then the number of ranks has no limit.
//
//     learn      the order within a node: by the MPI's call on the whole communicator, in which ranks of other nodes
//                contribute numbers that change nothing. Nodes of one size have one order; the first of each size
//                teaches it
//     compare    vectors of pseudo-random numbers of all ranks have the same bits, natively and in two levels. Here it
//                shows whether the MPI adds so at all
//     NaNs       a NaN of a contribution is in its node's result. Then the MPI does the call: leaders tell each other.
//                The same if the operations of a node make one
//
// Thread rule: the team's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "intranode/sums/order_file.hpp"
#include "intranode/sums/order_learner.hpp"
#include "mpi/intranode/nodes_team.hpp"
#include "mpi/intranode/order_talk.hpp"
#include "mpi/intranode/team_arguments.hpp"

namespace outrigger::mpi {

// Such a reduction is done in two levels. Otherwise each rank combines the contributions of all, in the whole order.
[[nodiscard]] bool is_in_levels(const NodesTeam& team, const TeamArguments& call);

class LevelOrders {
 public:
  // Both outlive it.
  LevelOrders(NodesTeam& team, OrderTalk& talk);

  [[nodiscard]] bool take(const TeamArguments& call) const { return is_in_levels(team_, call); }
  // How many orders a call has: one for each size of a node, ascending.
  [[nodiscard]] std::size_t sizes() const { return teachers_.size(); }
  // The one of this rank's node; nullptr: these are orders of other nodes.
  [[nodiscard]] const intranode::SumOrder* own(const intranode::MemberOrders& orders) const;
  // For the time that it takes: the largest node's.
  [[nodiscard]] intranode::Learning learning_of(const TeamArguments& call) const;

  // Collective. The result is the same at all ranks; empty: `refusal` says why.
  [[nodiscard]] intranode::MemberOrders learn(const intranode::NativeReduction& native, const TeamArguments& call,
                                              intranode::SumRefusal& refusal);
  // Collective: the worst of all ranks. `own`: of this rank's node.
  [[nodiscard]] intranode::SumRefusal compare(const intranode::NativeReduction& native, const TeamArguments& call,
                                              const intranode::SumOrder& own, std::uint64_t first_vector,
                                              std::size_t vectors);

 private:
  // More sizes would take too many calls.
  static constexpr std::size_t kMostSizes = 2;
  struct Teacher {
    std::uint32_t size;  // of the node
    std::uint32_t node;
  };

  [[nodiscard]] intranode::Learned learn_from(const Teacher& teacher, const intranode::NativeReduction& native,
                                              const TeamArguments& call) const;
  [[nodiscard]] intranode::Learning learning_of(const TeamArguments& call, std::uint32_t members) const;

  NodesTeam& team_;
  OrderTalk& talk_;
  std::uint32_t here_;  // the ranks of this node
  std::vector<Teacher> teachers_;
};

}  // namespace outrigger::mpi
