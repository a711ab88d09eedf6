// In which order a call's ranks reduce floating-point numbers, so that the result has the bits of their MPI.
//
// intranode/sums learns the orders; this is what it needs of MPI and of the team:
//
//     probes       the MPI's own call on the same communicator, with the call's count, root and operation. All members
//                  are in such a call anyway. Half of the probes are in place
//     agreement    members tell each other what they have learned (order_talk.hpp). An allreduce needs the same order
//                  everywhere, a reduce the root's, all others each member's own
//     keys         the collective, its root or its list of counts, the operation, the type, and the exact count
//     levels       on several nodes, long vectors and many ranks have orders within the nodes (level_orders.hpp)
//     file         the first member keeps all members' orders for later jobs (order_file.hpp). Those of an earlier job
//                  are verified by vectors first, or learned again if that takes no more calls
//
// The key has nothing that ranks of one call may give differently. So a call in place has the order of the others,
// which the probes check. MPICH 4.0 crashes for some calls in place: reduce with another root than 0, and
// reduce_scatter. So these are not probed in place under MPICH, and such calls remain native (is_probed_in_place()).
//
// Thread rule: the team's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "intranode/sums/order_file.hpp"
#include "intranode/sums/order_table.hpp"
#include "mpi/intranode/level_orders.hpp"
#include "mpi/intranode/nodes_team.hpp"
#include "mpi/intranode/order_talk.hpp"
#include "mpi/intranode/team_arguments.hpp"
#include "mpi/native/abi.hpp"
#include "protocol/ids.hpp"
#include "report/native_reason.hpp"

namespace outrigger::mpi {

struct Job;
class RankWaiter;

class TeamOrders {
 public:
  // `members`: their ranks in the world. `nodes`: their team if they are on several nodes, or nullptr; it outlives
  // this. Learns in the first call if ranks shall do all that they can.
  TeamOrders(const Job& job, std::unique_ptr<OrderTalk> talk, NodesTeam* nodes, RankWaiter& waiter,
             std::span<const WorldRank> members);

  struct Answer {
    intranode::OrderTable::Entry* entry = nullptr;  // with an order; valid until the next next()
    report::NativeReason native = report::NativeReason::none;
  };
  // A call whose reduction has its order. Collective: learns or verifies the order when it is time. `place`: of the
  // call before with the same words, or empty.
  [[nodiscard]] Answer next(MPI_Comm comm, const TeamArguments& call, intranode::OrderTable::Place& place);
  // Does a member say so? Collective.
  [[nodiscard]] bool any_says(bool mine) { return talk_->most_of(mine ? 1 : 0) != 0; }
  // Where next() has nothing to do but to count the call.
  [[nodiscard]] intranode::OrderTable& table() { return table_; }

 private:
  [[nodiscard]] static Answer answer_of(intranode::OrderTable::Entry& entry);
  [[nodiscard]] bool look_up(MPI_Comm comm, const TeamArguments& call, intranode::OrderTable::Entry& entry);
  // Without orders: such calls are refused.
  void keep(const intranode::OrderTable::Entry& entry, const intranode::MemberOrders& orders);
  [[nodiscard]] intranode::OrderKey key_in_file(const intranode::OrderTable::Entry& entry) const;
  void learn(MPI_Comm comm, const TeamArguments& call, intranode::OrderTable::Entry& entry);
  void verify(MPI_Comm comm, const TeamArguments& call, intranode::OrderTable::Entry& entry);
  [[nodiscard]] intranode::SumRefusal compare(MPI_Comm comm, const TeamArguments& call,
                                              const intranode::SumOrder& order, std::uint64_t first_vector,
                                              std::size_t vectors);
  [[nodiscard]] const intranode::SumOrder* own_of(const TeamArguments& call, const intranode::MemberOrders& kept) const;
  [[nodiscard]] intranode::MemberOrders learn_orders(MPI_Comm comm, const TeamArguments& call,
                                                     intranode::SumRefusal& refusal);
  [[nodiscard]] bool by_levels(const TeamArguments& call) const { return levels_ && levels_->take(call); }
  [[nodiscard]] intranode::Learning learning_for(const TeamArguments& call) const;
  [[nodiscard]] intranode::OrderKey key_for(const TeamArguments& call) const;

  [[nodiscard]] const TeamPlace& own_place() const { return talk_->place(); }

  std::unique_ptr<OrderTalk> talk_;
  std::optional<LevelOrders> levels_;  // on several nodes
  RankWaiter& waiter_;
  intranode::OrderFile* file_;
  std::string members_;  // who they are, in one word
  bool at_once_;
  intranode::OrderTable table_;
};

}  // namespace outrigger::mpi
