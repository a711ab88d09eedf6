#include "mpi/intranode/team_orders.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "mpi/intranode/rank_waiter.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/die.hpp"
#include "mpi/native/real.hpp"

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

// Vectors of a verification: so many that short ones show the order, too.
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

// The same at all members.
bool has_one_order(const TeamArguments& call) {
  return call.call == CollectiveCall::allreduce || call.call == CollectiveCall::reduce;
}

std::string word_for(std::span<const WorldRank> members) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const WorldRank member : members) hash = (hash ^ member.value()) * 0x100000001B3ULL;
  return std::to_string(hash);
}

std::vector<int> counts_of(const TeamArguments& call, std::uint32_t members) {
  std::vector<int> counts(members);
  for (std::uint32_t member = 0; member < members; ++member) {
    counts[member] = static_cast<int>(call.count_at(call.receive, member));
  }
  return counts;
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

intranode::NativeReduction native_of(MPI_Comm comm, const TeamArguments& call, const TeamPlace& team) {
  return [calls = NativeCalls(comm, call, team)](const std::byte* contribution, std::byte* result) mutable {
    return calls(contribution, result);
  };
}

}  // namespace

bool is_probed_in_place([[maybe_unused]] const TeamArguments& call) {
#if defined(OUTRIGGER_ABI_OPENMPI)
  return true;
#else
  return call.call == CollectiveCall::reduce ? call.root == 0 : call.call != CollectiveCall::reduce_scatter;
#endif
}

TeamOrders::TeamOrders(const Job& job, std::unique_ptr<OrderTalk> talk, RankWaiter& waiter,
                       std::span<const WorldRank> members)
    : talk_(std::move(talk)),
      waiter_(waiter),
      file_(job.orders.get()),
      members_(word_for(members)),
      at_once_(job.config.intranode == Config::Intranode::always),
      table_(at_once_) {}

TeamOrders::Answer TeamOrders::next(MPI_Comm comm, const TeamArguments& call, OrderTable::Place& place) {
  if (OrderTable::Entry* known = table_.again_at(place)) {
    table_.count_at(place);
    return answer_of(*known);
  }
  const OrderTable::Next next = table_.next(key_of(call, own_place().size), learning_of(call, own_place()));
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
  if (!orders || orders->size() != (has_one_order(call) ? 1 : own_place().size)) return false;
  if (vectors_for(call, own_place().size) >= intranode::learning_calls(learning_of(call, own_place()))) {
    learn(comm, call, entry);
    return true;
  }
  const SumOrder& own = has_one_order(call) ? orders->front() : (*orders)[own_place().rank];
  if (compare(comm, call, own, 0, vectors_for(call, own_place().size)) != SumRefusal::none) return false;
  OrderTable::settle(entry, own, SumRefusal::none);
  return true;
}

void TeamOrders::keep(const TeamArguments& call, const OrderTable::Entry& entry) {
  MemberOrders orders;
  if (entry.order) orders = has_one_order(call) ? MemberOrders{*entry.order} : orders_of_all(*entry.order);
  if (own_place().rank == 0 && file_ != nullptr) file_->note(key_in_file(entry), orders);
}

void TeamOrders::learn(MPI_Comm comm, const TeamArguments& call, OrderTable::Entry& entry) {
  waiter_.enters();
  Learned learned = intranode::learn(native_of(comm, call, own_place()), learning_of(call, own_place()));
  auto refusal = static_cast<SumRefusal>(talk_->most_of(static_cast<std::uint8_t>(learned.refusal)));
  if (refusal == SumRefusal::none && call.call == CollectiveCall::reduce) {
    learned.order = order_of(static_cast<std::uint32_t>(call.root), learned.order);
  } else if (refusal == SumRefusal::none && call.call == CollectiveCall::allreduce) {
    const bool same = order_of(0, learned.order) == learned.order;
    if (any_says(!same)) refusal = SumRefusal::varies;
  }
  if (refusal != SumRefusal::none) learned.order.reset();
  OrderTable::settle(entry, std::move(learned.order), refusal);
  if (refusal != SumRefusal::native_failed) keep(call, entry);
}

void TeamOrders::verify(MPI_Comm comm, const TeamArguments& call, OrderTable::Entry& entry) {
  waiter_.enters();
  const SumRefusal refusal = compare(comm, call, *entry.order, entry.calls, vectors_for(call, own_place().size));
  if (refusal == SumRefusal::none) return OrderTable::verified(entry);
  OrderTable::settle(entry, std::nullopt, refusal);
  keep(call, entry);
}

// The worst of all members.
SumRefusal TeamOrders::compare(MPI_Comm comm, const TeamArguments& call, const SumOrder& order,
                               std::uint64_t first_vector, std::size_t vectors) {
  const SumRefusal mine = intranode::verify(native_of(comm, call, own_place()), learning_of(call, own_place()), order,
                                            first_vector, vectors);
  return static_cast<SumRefusal>(talk_->most_of(static_cast<std::uint8_t>(mine)));
}

// The order of one member, which has one, to all.
SumOrder TeamOrders::order_of(std::uint32_t member, const std::optional<SumOrder>& own) {
  const std::string text = talk_->text_of(member, own ? own->text() : std::string());
  const std::optional<SumOrder> order = SumOrder::parse(text);
  if (!order) die("a rank sent a malformed order of addition: %s; this is a bug, please report it", text.c_str());
  return *order;
}

MemberOrders TeamOrders::orders_of_all(const SumOrder& own) {
  MemberOrders all;
  for (std::uint32_t member = 0; member < own_place().size; ++member) all.push_back(order_of(member, own));
  return all;
}

}  // namespace outrigger::mpi
