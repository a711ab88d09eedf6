#include "mpi/intranode/team_orders.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "mpi/intranode/probe_calls.hpp"
#include "mpi/intranode/rank_waiter.hpp"
#include "mpi/job/job.hpp"

namespace outrigger::mpi {
namespace {

using intranode::Learned;
using intranode::Learning;
using intranode::MemberOrders;
using intranode::OrderStep;
using intranode::OrderTable;
using intranode::SumOrder;
using intranode::SumRefusal;
using report::NativeReason;

// The same at all members.
bool has_one_order(const TeamArguments& call) {
  return call.call == CollectiveCall::allreduce || call.call == CollectiveCall::reduce;
}

// `nodes`: where they are, if they are on several.
std::string word_for(std::span<const WorldRank> members, const NodesTeam* nodes) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  const auto mix = [&](std::uint64_t number) { hash = (hash ^ number) * 0x100000001B3ULL; };
  for (const WorldRank member : members) mix(member.value());
  for (std::uint32_t rank = 0; nodes != nullptr && rank < members.size(); ++rank) mix(nodes->map().node_of(rank));
  return std::to_string(hash);
}

intranode::OrderKey key_of(const TeamArguments& call, std::uint32_t members) {
  intranode::OrderKey key;
  key.form = name_of(CallKind{call.call, CallForm::blocking});
  if (call.call == CollectiveCall::reduce) key.form += "@" + std::to_string(call.root);
  if (call.receive.listed) {
    for (const int count : counts_of(call, members)) key.form += "@" + std::to_string(count);
  }
  key.members = members;
  key.reduction = *call.reduction;
  key.elements = static_cast<std::uint64_t>(call.send.count);
  return key;
}

Learning learning_of(const TeamArguments& call, const TeamPlace& team) {
  const auto elements = static_cast<std::size_t>(call.send.count);
  Learning learning = Learning::allreduce(team.rank, team.size, *call.reduction, elements);
  switch (call.call) {
    case CollectiveCall::reduce: learning.returned = std::cmp_equal(call.root, team.rank) ? elements : 0; break;
    case CollectiveCall::scan: learning.summed = team.rank + 1; break;
    case CollectiveCall::exscan: learning.summed = team.rank; break;
    case CollectiveCall::reduce_scatter:
    case CollectiveCall::reduce_scatter_block:
      for (std::uint32_t member = 0; member < team.rank; ++member) {
        learning.first += static_cast<std::size_t>(call.count_at(call.receive, member));
      }
      learning.returned = static_cast<std::size_t>(call.count_at(call.receive, team.rank));
      learning.whole = false;
      break;
    default: break;
  }
  return learning;
}

}  // namespace

TeamOrders::TeamOrders(const Job& job, std::unique_ptr<OrderTalk> talk, NodesTeam* nodes, RankWaiter& waiter,
                       std::span<const WorldRank> members)
    : talk_(std::move(talk)),
      waiter_(waiter),
      file_(job.orders.get()),
      members_(word_for(members, nodes)),
      at_once_(job.config.intranode == Config::Intranode::always),
      table_(at_once_) {
  if (nodes != nullptr) levels_.emplace(*nodes, *talk_);
}

TeamOrders::Answer TeamOrders::next(MPI_Comm comm, const TeamArguments& call, OrderTable::Place& place) {
  if (OrderTable::Entry* known = table_.again_at(place)) {
    table_.count_at(place);
    return answer_of(*known);
  }
  const OrderTable::Next next = table_.next(key_for(call), learning_for(call));
  place = table_.place();
  OrderTable::Entry& entry = *next.entry;
  switch (next.step) {
    case OrderStep::use: break;
    case OrderStep::look_up:
      if (look_up(comm, call, entry)) break;
      OrderTable::not_found(entry);
      if (at_once_) learn(comm, call, entry);
      break;
    case OrderStep::learn: learn(comm, call, entry); break;
    case OrderStep::verify: verify(comm, call, entry); break;
    case OrderStep::native: break;
  }
  return answer_of(entry);
}

TeamOrders::Answer TeamOrders::answer_of(OrderTable::Entry& entry) {
  if (entry.order) return {&entry};
  return {nullptr, entry.settled ? NativeReason::order_not_found : NativeReason::order_not_learned};
}

intranode::OrderKey TeamOrders::key_in_file(const OrderTable::Entry& entry) const {
  intranode::OrderKey key = entry.key;
  key.form += "#" + members_;
  return key;
}

intranode::OrderKey TeamOrders::key_for(const TeamArguments& call) const {
  intranode::OrderKey key = key_of(call, own_place().size);
  if (by_levels(call)) key.form += "@levels";
  return key;
}

// Minima and maxima of several nodes are combined within these first, whatever the number of ranks.
Learning TeamOrders::learning_for(const TeamArguments& call) const {
  const bool is_within_nodes = by_levels(call) || (levels_ && intranode::any_order(*call.reduction));
  return is_within_nodes ? levels_->learning_of(call) : learning_of(call, own_place());
}

// True: the call has what an earlier job has found, or learns it again.
bool TeamOrders::look_up(MPI_Comm comm, const TeamArguments& call, OrderTable::Entry& entry) {
  waiter_.enters();
  std::string found;
  if (own_place().rank == 0 && file_ != nullptr) {
    const std::optional<MemberOrders> kept = file_->find(key_in_file(entry));
    if (kept) found = kept->empty() ? "native" : intranode::text_of(*kept);
  }
  found = talk_->text_of(0, std::move(found));
  if (found == "native") {
    OrderTable::settle(entry, std::nullopt, SumRefusal::varies);
    return true;
  }
  const std::optional<MemberOrders> orders = intranode::parse_orders(found);
  const SumOrder* const own = orders ? own_of(call, *orders) : nullptr;
  if (any_says(own == nullptr)) return false;
  if (!by_levels(call) && vectors_for(call, own_place().size) >= intranode::learning_calls(learning_for(call))) {
    learn(comm, call, entry);
    return true;
  }
  if (compare(comm, call, *own, 0, vectors_for(call, own_place().size)) != SumRefusal::none) return false;
  OrderTable::settle(entry, *own, SumRefusal::none);
  return true;
}

const SumOrder* TeamOrders::own_of(const TeamArguments& call, const MemberOrders& kept) const {
  if (by_levels(call)) return kept.size() == levels_->sizes() ? levels_->own(kept) : nullptr;
  if (kept.size() != (has_one_order(call) ? 1 : own_place().size)) return nullptr;
  return has_one_order(call) ? &kept.front() : &kept[own_place().rank];
}

void TeamOrders::keep(const OrderTable::Entry& entry, const MemberOrders& orders) {
  if (own_place().rank == 0 && file_ != nullptr) file_->note(key_in_file(entry), orders);
}

void TeamOrders::learn(MPI_Comm comm, const TeamArguments& call, OrderTable::Entry& entry) {
  waiter_.enters();
  SumRefusal refusal = SumRefusal::none;
  const MemberOrders orders = learn_orders(comm, call, refusal);
  OrderTable::settle(entry, orders.empty() ? std::nullopt : std::optional(*own_of(call, orders)), refusal);
  if (refusal != SumRefusal::native_failed) keep(entry, orders);
}

// As the file keeps them. Empty: `refusal` says why.
MemberOrders TeamOrders::learn_orders(MPI_Comm comm, const TeamArguments& call, SumRefusal& refusal) {
  if (by_levels(call)) {
    MemberOrders orders = levels_->learn(native_of(comm, call, own_place()), call, refusal);
    if (refusal == SumRefusal::none)
      refusal = compare(comm, call, *levels_->own(orders), 0, vectors_for(call, own_place().size));
    if (refusal != SumRefusal::none) orders.clear();
    return orders;
  }
  Learned learned = intranode::learn(native_of(comm, call, own_place()), learning_of(call, own_place()));
  refusal = talk_->worst_of(learned.refusal);
  if (refusal == SumRefusal::none && call.call == CollectiveCall::reduce) {
    learned.order = talk_->order_of(static_cast<std::uint32_t>(call.root), learned.order);
  } else if (refusal == SumRefusal::none && call.call == CollectiveCall::allreduce) {
    const bool same = talk_->order_of(0, learned.order) == learned.order;
    if (any_says(!same)) refusal = SumRefusal::varies;
  }
  if (refusal != SumRefusal::none) return {};
  if (has_one_order(call)) return {*std::move(learned.order)};
  MemberOrders all;
  for (std::uint32_t member = 0; member < own_place().size; ++member)
    all.push_back(talk_->order_of(member, learned.order));
  return all;
}

void TeamOrders::verify(MPI_Comm comm, const TeamArguments& call, OrderTable::Entry& entry) {
  waiter_.enters();
  const SumRefusal refusal = compare(comm, call, *entry.order, entry.calls, vectors_for(call, own_place().size));
  if (refusal == SumRefusal::none) return OrderTable::verified(entry);
  OrderTable::settle(entry, std::nullopt, refusal);
  keep(entry, {});
}

SumRefusal TeamOrders::compare(MPI_Comm comm, const TeamArguments& call, const SumOrder& order,
                               std::uint64_t first_vector, std::size_t vectors) {
  const intranode::NativeReduction native = native_of(comm, call, own_place());
  if (by_levels(call)) return levels_->compare(native, call, order, first_vector, vectors);
  return talk_->worst_of(intranode::verify(native, learning_of(call, own_place()), order, first_vector, vectors));
}

}  // namespace outrigger::mpi
