#include "mpi/intranode/ranks_call.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/tick_clock.hpp"
#include "mpi/collectives/arguments.hpp"
#include "mpi/communicators/neighbor_order.hpp"
#include "mpi/intranode/placed_blocks.hpp"
#include "mpi/intranode/plain_calls.hpp"
#include "mpi/intranode/probe_calls.hpp"
#include "mpi/intranode/sure_reductions.hpp"
#include "mpi/intranode/team_blocks.hpp"
#include "mpi/intranode/team_orders.hpp"
#include "mpi/job/job.hpp"
#include "mpi/memory/accelerators.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/report/call_count.hpp"
#include "mpi/report/counting.hpp"

namespace outrigger::mpi {
namespace {

using intranode::Outcome;

// A rule of the user's, or a table for several nodes, says how such calls are done.
bool is_for_services(const Job& job, const CommState& state, const TeamArguments& arguments) {
  const Collective collective = *offloaded_as(arguments.call);
  const auto bytes = has_alike_blocks(collective) ? arguments.block_bytes() : std::nullopt;
  return job.config.selection.decide(true, collective, state.shape(), bytes).considered;
}

// Neither side begins where the other, or the member's own block in it, does: an MPI may refuse that.
bool begin_apart(const TeamArguments& call, std::uint32_t me) {
  const void* sent = call.send.buffer;
  const void* received = call.receive.buffer;
  if (is_of_neighbors(call.call)) return sent != received;
  return sent != received && sent != call.own_block(call.receive, me) && received != call.own_block(call.send, me);
}

// False: the communicator has no topology.
bool find_neighbors(const Job& job, RankTeam& team, MPI_Comm comm, TeamArguments& arguments) {
  const Neighbors* neighbors = team.neighbors().of(comm);
  if (neighbors == nullptr) return false;
  const bool repeats = neighbors->sources_in(NeighborOrder::in_turn).repeats();
  const NeighborOrder order =
      repeats ? native_order(job, neighbors->topology, *offloaded_as(arguments.call), true) : NeighborOrder::in_turn;
  arguments.on_grid = neighbors->topology == Topology::cartesian;
  arguments.send.neighbors = &neighbors->destinations;
  arguments.receive.neighbors = &neighbors->sources_in(order);
  return true;
}

// Each call as the team does it: intranode::Team, or NodesTeam, which does those that it takes.
template <class AnyTeam>
class Performance {
  static constexpr bool kOneNode = std::is_same_v<AnyTeam, intranode::Team>;

 public:
  // `order`: the MPI's; nullptr: the order does not matter.
  Performance(const Job& job, RankTeam& ranks, AnyTeam& team, const TeamArguments& arguments,
              const intranode::SumOrder* order)
      : job_(job),
        ranks_(ranks),
        team_(team),
        call_(arguments),
        order_(order),
        me_(ranks.rank()),
        root_(static_cast<std::uint32_t>(arguments.root)) {}

  Outcome run() {
    switch (call_.call) {
      case CollectiveCall::barrier: return team_.barrier();
      case CollectiveCall::bcast: return broadcast();
      case CollectiveCall::allgather:
      case CollectiveCall::allgatherv: return allgather();
      case CollectiveCall::alltoall:
      case CollectiveCall::alltoallv: return alltoall();
      case CollectiveCall::alltoallw:
      case CollectiveCall::neighbor_alltoall:
      case CollectiveCall::neighbor_alltoallv:
      case CollectiveCall::neighbor_alltoallw:
      case CollectiveCall::neighbor_allgather:
      case CollectiveCall::neighbor_allgatherv: return exchange_places();
      case CollectiveCall::gather:
      case CollectiveCall::gatherv: return gather();
      case CollectiveCall::scatter:
      case CollectiveCall::scatterv: return scatter();
      default: return reduction();
    }
  }
  // All members come to the same: the call remains to be done natively.
  [[nodiscard]] bool asks_native() const { return asks_native_; }

 private:
  Outcome broadcast() {
    TeamBlock block(job_, ranks_, 0, call_.send, call_.send.count);
    const bool sends = root_ == me_;
    if (sends) block.pack();
    const Outcome outcome = team_.broadcast(block.bytes(), root_);
    if (!sends) block.unpack();
    return outcome;
  }

  Outcome allgather() {
    TeamBlocks into(job_, ranks_, 1, call_, call_.receive);
    if (call_.send.in_place()) {
      into.pack_one(me_);
      const Outcome outcome = team_.allgather(into.blocks().of(me_), into.blocks());
      into.unpack();
      return outcome;
    }
    TeamBlock mine(job_, ranks_, 0, call_.send, call_.send.count);
    mine.pack();
    const Outcome outcome = team_.allgather(mine.bytes(), into.blocks());
    into.unpack();
    return outcome;
  }

  Outcome alltoall() {
    TeamBlocks into(job_, ranks_, 1, call_, call_.receive);
    const bool alike = !call_.receive.listed;
    if (call_.send.in_place()) {
      into.pack();
      const Outcome outcome = exchange_in_place(into.blocks(), alike);
      into.unpack();
      return outcome;
    }
    TeamBlocks from(job_, ranks_, 0, call_, call_.send);
    from.pack();
    const Outcome outcome =
        alike ? team_.alltoall(from.blocks(), into.blocks()) : exchange(from.blocks(), into.blocks());
    into.unpack();
    return outcome;
  }
  Outcome exchange(const intranode::Blocks& from, const intranode::Blocks& into) {
    if constexpr (kOneNode) return team_.alltoallv(from, into);
    return Outcome::ended;
  }
  Outcome exchange_in_place(const intranode::Blocks& blocks, bool alike) {
    if constexpr (kOneNode) return team_.alltoall_in_place(blocks, alike);
    return team_.alltoall(blocks, blocks);
  }

  // Between ranks that are no neighbors go empty blocks.
  Outcome exchange_places() {
    PlacedBlocks into(job_, ranks_, 1, call_, call_.receive);
    if (call_.send.in_place()) {
      into.pack();
      const Outcome outcome = exchange_in_place(into.blocks(), false);
      into.unpack();
      return outcome;
    }
    PlacedBlocks from(job_, ranks_, 0, call_, call_.send);
    from.pack();
    const Outcome outcome = exchange(from.blocks(), into.blocks());
    into.unpack();
    return outcome;
  }

  Outcome gather(std::span<const std::byte> mine, const intranode::Blocks& into) {
    if constexpr (kOneNode) {
      if (call_.call == CollectiveCall::gatherv) return team_.gatherv(mine, into, root_);
    }
    return team_.gather(mine, into, root_);
  }
  Outcome gather() {
    if (root_ != me_) {
      TeamBlock mine(job_, ranks_, 0, call_.send, call_.send.count);
      mine.pack();
      return gather(mine.bytes(), {});
    }
    TeamBlocks into(job_, ranks_, 1, call_, call_.receive);
    Outcome outcome{};
    if (call_.send.in_place()) {
      into.pack_one(me_);
      outcome = gather(into.blocks().of(me_), into.blocks());
    } else {
      TeamBlock mine(job_, ranks_, 0, call_.send, call_.send.count);
      mine.pack();
      outcome = gather(mine.bytes(), into.blocks());
    }
    into.unpack();
    return outcome;
  }

  Outcome scatter(const intranode::Blocks& from, std::span<std::byte> mine) {
    if constexpr (kOneNode) {
      if (call_.call == CollectiveCall::scatterv) return team_.scatterv(from, mine, root_);
    }
    return team_.scatter(from, mine, root_);
  }
  Outcome scatter() {
    if (root_ != me_) {
      TeamBlock mine(job_, ranks_, 1, call_.receive, call_.receive.count);
      const Outcome outcome = scatter({}, mine.bytes());
      mine.unpack();
      return outcome;
    }
    TeamBlocks from(job_, ranks_, 0, call_, call_.send);
    from.pack();
    if (call_.receive.in_place()) return scatter(from.blocks(), from.blocks().of(me_));
    TeamBlock mine(job_, ranks_, 1, call_.receive, call_.receive.count);
    const Outcome outcome = scatter(from.blocks(), mine.bytes());
    mine.unpack();
    return outcome;
  }

  // In place, what is reduced is where the result goes. An MPI may accept the same of two buffers.
  Outcome reduction() {
    const bool parted = call_.receive.listed || call_.call == CollectiveCall::reduce_scatter_block;
    const bool receives = call_.call == CollectiveCall::reduce   ? root_ == me_
                          : call_.call == CollectiveCall::exscan ? me_ != 0
                                                                 : true;
    const bool in_place = call_.send.in_place();
    TeamBlock vector(job_, ranks_, 0, in_place ? call_.receive : call_.send, call_.send.count);
    vector.pack();
    const std::int64_t own = parted ? call_.count_at(call_.receive, me_) : call_.send.count;
    if (in_place) {
      const auto own_bytes = static_cast<std::size_t>(own) * call_.reduction->element_bytes();
      const Outcome outcome = reduce_over(vector.bytes(), vector.bytes().first(receives ? own_bytes : 0));
      vector.unpack();
      return outcome;
    }
    TeamBlock result(job_, ranks_, 1, call_.receive, receives ? own : 0);
    const Outcome outcome = overlap(vector.bytes(), result.bytes()) ? reduce_over(vector.bytes(), result.bytes())
                                                                    : reduce(vector.bytes(), result.bytes().data());
    if (!asks_native_) result.unpack();
    return outcome;
  }
  // Contributions are kept until all members are sure of the result.
  Outcome reduce_over(std::span<const std::byte> vector, std::span<std::byte> result) {
    if (order_ == nullptr) return reduce(vector, result.data());
    std::byte* apart = ranks_.scratch(1, result.size());
    const Outcome outcome = reduce(vector, apart);
    if (!asks_native_ && !result.empty()) std::memcpy(result.data(), apart, result.size());
    return outcome;
  }
  // Members whose contributions this one combines.
  [[nodiscard]] std::uint32_t combined() const {
    if (!kOneNode && !rounds(*call_.reduction)) return ranks_.team().size();
    return std::max(combined_by(call_.call, ranks_.place()), 1U);
  }
  Outcome reduce(std::span<const std::byte> vector, std::byte* into) {
    if constexpr (kOneNode) {
      if (order_ != nullptr && are_sure_alone(team_, call_, vector.size())) return reduce_surely(vector, into);
    } else if (order_ != nullptr && !rounds(*call_.reduction)) {
      return team_.allreduce_extrema(vector, into, *call_.reduction, asks_native_);
    }
    const intranode::OrderCombine combine(*call_.reduction,
                                          order_ != nullptr ? *order_ : ranks_.rank_order(combined()));
    const Outcome outcome = reduce(vector, into, combine);
    if (kOneNode && order_ != nullptr && outcome == Outcome::done) {
      const bool sure = !combine.asks_native() && (!call_.send.in_place() || is_probed_in_place(call_));
      asks_native_ = ranks_.orders().any_says(!sure);
    }
    return outcome;
  }
  Outcome reduce_surely(std::span<const std::byte> vector, std::byte* into) {
    SureReduction sure(ranks_, call_, *order_, vector);
    const Outcome outcome = sure.run(call_.call, into);
    asks_native_ = sure.asks_native();
    return outcome;
  }
  Outcome reduce(std::span<const std::byte> vector, std::byte* into, const intranode::OrderCombine& combine) {
    if constexpr (!kOneNode) {
      return reduce_between_nodes(vector, into, combine);
    } else {
      return reduce_on_node(vector, into, combine);
    }
  }
  Outcome reduce_between_nodes(std::span<const std::byte> vector, std::byte* into,
                               const intranode::OrderCombine& combine) {
    const bool is_rooted = call_.call == CollectiveCall::reduce;
    const NativeReduction between{static_cast<int>(call_.send.count), call_.send.type, call_.operation};
    if (order_ != nullptr && is_in_levels(team_, call_)) {
      return team_.allreduce_sums(vector, into, combine, between, asks_native_);
    }
    if (order_ != nullptr || rounds(*call_.reduction)) {
      const Outcome outcome =
          team_.reduce_in_order(vector, into, combine, is_rooted ? std::optional(root_) : std::nullopt);
      asks_native_ = order_ != nullptr && combine.asks_native();  // all ranks combine the same numbers
      return outcome;
    }
    if (is_rooted) return team_.reduce(vector, into, combine, between, root_);
    return team_.allreduce(vector, into, combine, between);
  }
  Outcome reduce_on_node(std::span<const std::byte> vector, std::byte* into, const intranode::OrderCombine& combine) {
    switch (call_.call) {
      case CollectiveCall::reduce: return team_.reduce(vector, into, combine, root_);
      case CollectiveCall::allreduce: return team_.allreduce(vector, into, combine);
      case CollectiveCall::scan: return team_.scan(vector, into, combine);
      case CollectiveCall::exscan: return team_.exscan(vector, into, combine);
      default: break;
    }
    return reduce_scatter(vector, into, combine);
  }
  Outcome reduce_scatter(std::span<const std::byte> vector, std::byte* into, const intranode::OrderCombine& combine) {
    std::vector<std::uint64_t>& bytes = ranks_.lists(0).bytes;
    bytes.resize(ranks_.size());
    for (std::uint32_t member = 0; member < ranks_.size(); ++member) {
      bytes[member] = static_cast<std::uint64_t>(call_.count_at(call_.receive, member)) * combine.element_bytes();
    }
    return team_.reduce_scatter(vector.data(), bytes, into, combine);
  }

  const Job& job_;
  RankTeam& ranks_;
  AnyTeam& team_;
  const TeamArguments& call_;
  const intranode::SumOrder* order_;
  std::uint32_t me_;
  std::uint32_t root_;
  bool asks_native_ = false;
};

struct Performed {
  Outcome outcome;
  bool asks_native;
};

template <class AnyTeam>
Performed perform_by(const Job& job, RankTeam& ranks, AnyTeam& team, const TeamArguments& arguments,
                     const intranode::SumOrder* order) {
  Performance<AnyTeam> performance(job, ranks, team, arguments, order);
  const Outcome outcome = performance.run();
  return {outcome, performance.asks_native()};
}

// The last call had the same lists, in the same places. In place, one side's lists mean nothing and must not be read.
bool repeats_lists(const RankTeam::LastCall& last, std::span<const Word> words, bool large) {
  if (!last.has_words || last.arguments.large != large) return false;
  const BufferPlaces buffers = buffer_places(last.arguments.call);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (buffers.has(i) ? is_in_place(words[i]) != is_in_place(last.words[i]) : words[i] != last.words[i]) return false;
  }
  return last.lists.are_unchanged();
}

}  // namespace

bool takes_over(RankTeam::LastCall& last, std::span<const Word> words, std::uint32_t me) {
  TeamArguments& call = last.arguments;
  const BufferPlaces places = buffer_places(call.call);
  if (places.send < words.size())
    call.send.buffer = argument<const void*>(last.words[places.send] = words[places.send]);
  if (places.receive < words.size()) {
    call.receive.buffer = argument<const void*>(last.words[places.receive] = words[places.receive]);
  }
  last.known = begin_apart(call, me) && !accelerator_loaded();  // else the call needs another look
  return last.known;
}

RanksCall::RanksCall(Job& job, CollectiveCall call, std::span<const Word> words, bool large_counts, RankTeam* team,
                     bool again)
    : job_(job),
      call_(call),
      comm_(argument<MPI_Comm>(words[static_cast<std::size_t>(arguments_of(call).comm)])),
      team_(team) {
  if (team_ == nullptr || team_->is_native()) return;
  if (team_->is_off()) {
    native_ = report::NativeReason::switched_off;
    return;
  }
  const bool is_done = is_done_by_teams(call) && (team_->nodes() == nullptr || team_->nodes()->takes(call, 0));
  if (!is_done) {
    if (team_->is_ready()) team_->begins(intranode::CallWord(call, 0, 0), false);
    return;
  }
  RankTeam::LastCall& last = team_->last_call(call);
  arguments_ = &last.arguments;
  if (!again) {
    const bool repeats = !has_lists(call) || repeats_lists(last, words, large_counts);
    last.arguments = TeamArguments::of(call, words, large_counts);
    look_at(last);
    keep(last, words, repeats);
  } else if (last.is_off()) {
    begin(last);
    return;
  }
  if (last.kind != nullptr) choose(last);
  begin(last);
}

void RanksCall::look_at(RankTeam::LastCall& last) {
  last.known = false;
  last.kind = nullptr;
  last.takes_turns = last.needs_order = false;
  last.plain.reset();
  last.order = {};
  last.state = job_.client == nullptr ? nullptr : state_of(job_, comm_);
  last.said = intranode::CallWord(call_, 0, 0);
  if (is_of_neighbors(last.arguments.call) && !find_neighbors(job_, *team_, comm_, last.arguments)) return;
  if (!last.arguments.valid(job_, team_->place())) return;
  if (!team_->joins(job_, comm_)) {
    if (!team_->is_native()) native_ = report::NativeReason::few_calls;
    return;
  }
  const auto root = static_cast<std::uint32_t>(last.arguments.root);
  last.said = intranode::CallWord(call_, root, last.arguments.block_bytes().value_or(0));
  if (job_.client != nullptr && (last.state == nullptr || last.state->off())) return;
  const bool asks_rules = job_.client != nullptr && job_.config.blocking;
  if (asks_rules && is_for_services(job_, *last.state, last.arguments)) return;
  const std::optional<TeamCallKey> key =
      team_->takes(last.arguments) ? last.arguments.key(team_->size(), last.seen_bytes) : std::nullopt;
  last.kind = key ? team_->kind_of(*key, call_) : nullptr;
  last.known = !asks_rules && last.arguments.tells_by_words();
  // A trial would add natively now and then: such sums would not be the same from run to run.
  const bool in_own_order =
      last.arguments.reduction && last.arguments.order == RankOrder::ranks && rounds(*last.arguments.reduction);
  last.takes_turns = last.kind != nullptr && job_.config.intranode != Config::Intranode::always && !in_own_order;
  last.needs_order = last.kind != nullptr && is_reduction(call_) && last.arguments.order == RankOrder::natives;
}

// Lists that change from call to call are not worth more than a copy.
void RanksCall::keep(RankTeam::LastCall& last, std::span<const Word> words, bool repeats) const {
  last.has_words = last.known;
  if (!last.known) return;
  std::ranges::copy(words, last.words.begin());
  if (has_lists(call_) && !repeats) last.lists.keep(last.arguments, team_->place());
  last.known = repeats;
  if (repeats && last.kind != nullptr && team_->nodes() == nullptr) find_plain(last);
}

void RanksCall::find_plain(RankTeam::LastCall& last) const {
  // Otherwise ranks tell each other how sure they are of a sum.
  if (last.needs_order && !are_sure_alone(team_->team(), last.arguments, last.arguments.block_bytes().value_or(0)))
    return;
  last.plain = last.arguments.plain(team_->place());
  if (last.plain && !keep_blocks(last)) last.plain.reset();
}

// False: blocks must be packed.
bool RanksCall::keep_blocks(RankTeam::LastCall& last) const {
  const TeamArguments& call = last.arguments;
  const auto keep = [&](KeptBlocks& kept, std::size_t which, const TeamSide& side) {
    if (is_of_neighbors(call_)) {
      const PlacedBlocks placed(job_, *team_, which, call, side);
      if (placed.packed()) return false;
      kept.keep(placed.blocks(), side.buffer, team_->size());
    } else if (side.listed && side.shape.committed) {
      const TeamBlocks listed(job_, *team_, which, call, side);
      if (listed.packed()) return false;
      kept.keep(listed.blocks(), side.buffer, team_->size());
    }
    return true;
  };
  if (keep(last.from, 0, call.send) && keep(last.into, 1, call.receive)) return true;
  team_->give_back_scratch();
  return false;
}

void RanksCall::choose(RankTeam::LastCall& last) {
  if (is_reduction(arguments_->call) && !has_order(last)) return;
  kind_ = last.kind;
  if (!last.takes_turns) {
    turn_.way = steer::Way::ranks;
    return;
  }
  if (kind_->trial.is_over() && !team_->judge(kind_->trial)) {
    failed_ = true;
    return;
  }
  turn_ = kind_->trial.next();
  team_->copy_by_slots(turn_.by_slots);
  if (turn_.begins_row && team_->team().barrier() != Outcome::done) {
    failed_ = true;
    return;
  }
  if (turn_.way == steer::Way::native) {
    native_ = kind_->trial.is_under_way() ? report::NativeReason::in_trials : report::NativeReason::mpi_as_fast;
  }
  if (turn_.timed) began_ns_ = TickClock::now_ns();
}

bool RanksCall::has_order(RankTeam::LastCall& last) {
  if (arguments_->order == RankOrder::ranks) return true;
  const TeamOrders::Answer answer = team_->orders().next(comm_, *arguments_, last.order);
  entry_ = answer.entry;
  native_ = answer.native;
  return entry_ != nullptr;
}

void RanksCall::begin(const RankTeam::LastCall& last) {
  if (!team_->is_ready()) return;
  if (!failed_) team_->begins(last.said, by_ranks());
  if (last.state != nullptr) last.state->count_call_of_team();
}

void RanksCall::note_reason() const {
  if (CallCount* count = observing() ? CallCount::current() : nullptr) count->stays_native(native_);
}

void RanksCall::note_time() {
  kind_->trial.note(turn_, {began_ns_, TickClock::now_ns()});
}

void note_again(const RankTeam::LastCall& call, bool by_ranks) {
  CallCount* count = CallCount::current();
  if (count == nullptr) return;
  if (!by_ranks) return count->stays_native(report::NativeReason::nans);
  count->done_by_ranks(call.kind->trial.saved_ns());
}

std::optional<int> RanksCall::perform() {
  if (failed_) return team_->fail(comm_, call_);
  const intranode::SumOrder* order = entry_ != nullptr ? &*entry_->order : nullptr;
  NodesTeam* nodes = team_->nodes();
  const Performed performed = nodes == nullptr ? perform_by(job_, *team_, team_->team(), *arguments_, order)
                                               : perform_by(job_, *team_, *nodes, *arguments_, order);
  if (performed.outcome != Outcome::done) return team_->fail(comm_, call_);
  team_->give_back_scratch();
  if (has_seen_sizes(call_)) team_->see_sizes(team_->last_call(call_));
  if (performed.asks_native) [[unlikely]] {
    native_ = report::NativeReason::nans;
    intranode::OrderTable::asked(*entry_);
    return std::nullopt;
  }
  if (CallCount* count = observing() ? CallCount::current() : nullptr) count->done_by_ranks(kind_->trial.saved_ns());
  ended();
  return MPI_SUCCESS;
}

}  // namespace outrigger::mpi
