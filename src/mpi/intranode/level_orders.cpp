#include "mpi/intranode/level_orders.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "intranode/combine.hpp"
#include "mpi/intranode/probe_calls.hpp"

namespace outrigger::mpi {

using intranode::Learned;
using intranode::Learning;
using intranode::MemberOrders;
using intranode::SumOrder;
using intranode::SumRefusal;

bool is_in_levels(const NodesTeam& team, const TeamArguments& call) {
  return rounds(*call.reduction) && !team.takes_in_order(call.block_bytes().value_or(0));
}

LevelOrders::LevelOrders(NodesTeam& team, OrderTalk& talk)
    : team_(team), talk_(talk), here_(team.map().size_of(team.map().node_of(talk.place().rank))) {
  const NodesMap& map = team.map();
  for (std::uint32_t node = 0; node < map.nodes(); ++node) {
    const std::uint32_t size = map.size_of(node);
    if (std::ranges::find(teachers_, size, &Teacher::size) == teachers_.end()) teachers_.push_back({size, node});
  }
  std::ranges::sort(teachers_, {}, &Teacher::size);
}

const SumOrder* LevelOrders::own(const MemberOrders& orders) const {
  for (std::size_t i = 0; i < std::min(orders.size(), sizes()); ++i) {
    if (teachers_[i].size == here_ && orders[i].members() == here_) return &orders[i];
  }
  return nullptr;
}

Learning LevelOrders::learning_of(const TeamArguments& call, std::uint32_t members) const {
  const std::uint32_t local = team_.map().local_of(talk_.place().rank);
  return Learning::allreduce(local, members, *call.reduction, static_cast<std::size_t>(call.send.count));
}

Learning LevelOrders::learning_of(const TeamArguments& call) const {
  Learning learning = learning_of(call, team_.map().largest());
  learning.more_calls = 2 * vectors_for(call, talk_.place().size);  // of compare()
  if (sizes() > 1) learning.more_calls += 2 * intranode::learning_calls(learning);
  return learning;
}

MemberOrders LevelOrders::learn(const intranode::NativeReduction& native, const TeamArguments& call,
                                SumRefusal& refusal) {
  MemberOrders orders;
  refusal = sizes() > kMostSizes ? SumRefusal::unsupported : SumRefusal::none;
  for (std::size_t i = 0; i < sizes() && refusal == SumRefusal::none; ++i) {
    const Teacher& teacher = teachers_[i];
    const Learned learned = learn_from(teacher, native, call);
    refusal = talk_.worst_of(learned.refusal);
    if (refusal != SumRefusal::none) break;
    const SumOrder told = talk_.order_of(team_.map().ranks_of(teacher.node).front(), learned.order);
    refusal = talk_.worst_of(!learned.order || *learned.order == told ? SumRefusal::none : SumRefusal::varies);
    orders.push_back(told);
  }
  if (refusal != SumRefusal::none) orders.clear();
  return orders;
}

Learned LevelOrders::learn_from(const Teacher& teacher, const intranode::NativeReduction& native,
                                const TeamArguments& call) const {
  const Learning learning = learning_of(call, teacher.size);
  const bool teaches = team_.map().node_of(talk_.place().rank) == teacher.node;
  if (teacher.size <= 2) {  // one tree
    return {teaches ? std::optional(SumOrder(intranode::SumTree::linear(teacher.size))) : std::nullopt};
  }
  if (teaches) return intranode::learn(native, learning);
  const std::vector<std::byte> neutral = intranode::neutral_vector(*call.reduction, learning.elements);
  std::vector<std::byte> result(neutral.size());
  for (std::size_t calls = intranode::learning_calls(learning); calls > 0; --calls) {
    if (!native(neutral.data(), result.data())) return {std::nullopt, SumRefusal::native_failed};
  }
  return {};
}

SumRefusal LevelOrders::compare(const intranode::NativeReduction& native, const TeamArguments& call,
                                const SumOrder& own, std::uint64_t first_vector, std::size_t vectors) {
  const NativeReduction between{static_cast<int>(call.send.count), call.send.type, call.operation};
  const std::size_t bytes = static_cast<std::size_t>(call.send.count) * call.reduction->element_bytes();
  const auto in_levels = [&](const std::byte* contribution, std::byte* result) {
    const intranode::OrderCombine combine(*call.reduction, own);
    bool asks_native = false;
    return team_.allreduce_sums({contribution, bytes}, result, combine, between, asks_native) ==
           intranode::Outcome::done;
  };
  Learning learning = learning_of(call, here_);
  learning.member = talk_.place().rank;
  return talk_.worst_of(intranode::compare(native, in_levels, learning, first_vector, vectors));
}

}  // namespace outrigger::mpi
