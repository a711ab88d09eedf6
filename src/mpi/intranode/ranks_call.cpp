#include "mpi/intranode/ranks_call.hpp"

#include <algorithm>
#include <vector>

#include "base/tick_clock.hpp"
#include "mpi/collectives/arguments.hpp"
#include "mpi/intranode/team_blocks.hpp"
#include "mpi/job/job.hpp"
#include "mpi/memory/accelerators.hpp"
#include "mpi/native/die.hpp"
#include "mpi/native/entry.hpp"
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

// Buffers that no call of the library gives a meaning.
bool is_ordinary(Word buffer) {
  return buffer != 0 && buffer != reinterpret_cast<Word>(MPI_IN_PLACE);
}

// Neither side begins where the other, or the member's own block in it, does: an MPI may refuse that.
bool begin_apart(const TeamArguments& call, std::uint32_t me) {
  const void* sent = call.send.buffer;
  const void* received = call.receive.buffer;
  return sent != received && sent != offset_address(received, call.offset_at(call.receive, me)) &&
         received != offset_address(sent, call.offset_at(call.send, me));
}

// The same call again, but for ordinary buffers. Takes these over.
bool is_like_last(RankTeam::LastCall& last, std::span<const Word> words, std::uint32_t me) {
  const BufferPlaces places = buffer_places(last.arguments.call);
  bool moved = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == last.words[i]) continue;
    const bool is_buffer = i == places.send || i == places.receive;
    if (!is_buffer || !is_ordinary(words[i]) || !is_ordinary(last.words[i])) return false;
    last.words[i] = words[i];
    moved = true;
  }
  if (!moved) return true;
  TeamArguments& call = last.arguments;
  if (places.send < words.size()) call.send.buffer = argument<const void*>(words[places.send]);
  if (places.receive < words.size()) call.receive.buffer = argument<const void*>(words[places.receive]);
  return begin_apart(call, me) && !accelerator_loaded();
}

// Each call as the team does it.
class Performance {
 public:
  Performance(const Job& job, RankTeam& ranks, const TeamArguments& arguments)
      : job_(job),
        ranks_(ranks),
        team_(ranks.team()),
        call_(arguments),
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
      case CollectiveCall::gather:
      case CollectiveCall::gatherv: return gather();
      case CollectiveCall::scatter:
      case CollectiveCall::scatterv: return scatter();
      default: return reduction();
    }
  }

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
      const Outcome outcome = team_.alltoall_in_place(into.blocks(), alike);
      into.unpack();
      return outcome;
    }
    TeamBlocks from(job_, ranks_, 0, call_, call_.send);
    from.pack();
    const Outcome outcome =
        alike ? team_.alltoall(from.blocks(), into.blocks()) : team_.alltoallv(from.blocks(), into.blocks());
    into.unpack();
    return outcome;
  }

  Outcome gather(std::span<const std::byte> mine, const intranode::Blocks& into) {
    const bool alike = call_.call == CollectiveCall::gather;
    return alike ? team_.gather(mine, into, root_) : team_.gatherv(mine, into, root_);
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
    const bool alike = call_.call == CollectiveCall::scatter;
    return alike ? team_.scatter(from, mine, root_) : team_.scatterv(from, mine, root_);
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

  // In place, what is reduced is where the result goes.
  Outcome reduction() {
    const bool parted = call_.receive.listed || call_.call == CollectiveCall::reduce_scatter_block;
    const bool receives = call_.call == CollectiveCall::reduce   ? root_ == me_
                          : call_.call == CollectiveCall::exscan ? me_ != 0
                                                                 : true;
    const bool in_place = call_.send.in_place();
    TeamBlock vector(job_, ranks_, 0, in_place ? call_.receive : call_.send, call_.send.count);
    vector.pack();
    if (in_place) {
      const Outcome outcome = reduce(vector.bytes(), vector.bytes().data());
      vector.unpack();
      return outcome;
    }
    const std::int64_t own = parted ? call_.count_at(call_.receive, me_) : call_.send.count;
    TeamBlock result(job_, ranks_, 1, call_.receive, receives ? own : 0);
    const Outcome outcome = reduce(vector.bytes(), result.bytes().data());
    result.unpack();
    return outcome;
  }
  Outcome reduce(std::span<const std::byte> vector, std::byte* into) {
    const Reduction& reduction = *call_.reduction;
    switch (call_.call) {
      case CollectiveCall::reduce: return team_.reduce(vector, into, ranks_.combine(reduction, ranks_.size()), root_);
      case CollectiveCall::allreduce: return team_.allreduce(vector, into, ranks_.combine(reduction, ranks_.size()));
      case CollectiveCall::scan: return team_.scan(vector, into, ranks_.combine(reduction, me_ + 1));
      case CollectiveCall::exscan: return team_.exscan(vector, into, ranks_.combine(reduction, std::max(me_, 1U)));
      default: break;
    }
    std::vector<std::uint64_t>& bytes = ranks_.lists(0).bytes;
    bytes.resize(ranks_.size());
    for (std::uint32_t member = 0; member < ranks_.size(); ++member) {
      bytes[member] = static_cast<std::uint64_t>(call_.count_at(call_.receive, member)) * reduction.element_bytes();
    }
    return team_.reduce_scatter(vector.data(), bytes, into, ranks_.combine(reduction, ranks_.size()));
  }

  const Job& job_;
  RankTeam& ranks_;
  intranode::Team& team_;
  const TeamArguments& call_;
  std::uint32_t me_;
  std::uint32_t root_;
};

}  // namespace

RanksCall::RanksCall(Job& job, CollectiveCall call, std::span<const Word> words, bool large_counts) : job_(job) {
  if (!is_done_by_teams(call)) return;
  const auto comm = argument<MPI_Comm>(words[static_cast<std::size_t>(arguments_of(call).comm)]);
  team_ = team_of(job, comm);
  if (team_ == nullptr || team_->is_native()) return;
  RankTeam::LastCall& last = team_->last_call(call);
  arguments_ = &last.arguments;
  if (!last.known || !is_like_last(last, words, team_->rank())) {
    last.known = false;
    last.arguments = TeamArguments::of(call, words, large_counts);
    look_at(last, comm);
    if (last.known) std::ranges::copy(words, last.words.begin());
  } else if (last.state != nullptr && last.state->off()) {
    return;
  }
  if (last.kind != nullptr) choose(*last.kind);
}

void RanksCall::look_at(RankTeam::LastCall& last, MPI_Comm comm) {
  last.kind = nullptr;
  if (!last.arguments.valid(job_, team_->place()) || !team_->joins(job_, comm)) return;
  last.state = job_.client == nullptr ? nullptr : state_of(job_, comm);
  if (job_.client != nullptr && (last.state == nullptr || last.state->off())) return;
  const bool asks_rules = job_.client != nullptr && job_.config.blocking;
  if (asks_rules && is_for_services(job_, *last.state, last.arguments)) return;
  const std::optional<TeamCallKey> key = last.arguments.key();
  last.kind = key ? team_->kind_of(*key) : nullptr;
  last.known = !asks_rules && last.arguments.tells_by_words();
}

void RanksCall::choose(RankTeam::Kind& kind) {
  kind_ = &kind;
  if (job_.config.intranode == Config::Intranode::always) {
    turn_.way = steer::Way::ranks;
    return;
  }
  if (kind_->trial.is_over()) team_->judge(kind_->trial);
  turn_ = kind_->trial.next();
  if (turn_.timed) began_ns_ = TickClock::now_ns();
}

void RanksCall::note_time() {
  kind_->trial.note(turn_, {began_ns_, TickClock::now_ns()});
}

int RanksCall::perform() {
  if (CallCount* count = observing() ? CallCount::current() : nullptr) count->done_by_ranks();
  team_->enters(arguments_->call);
  if (Performance(job_, *team_, *arguments_).run() != Outcome::done) die("a collective by ranks has not ended");
  team_->give_back_scratch();
  ended();
  return MPI_SUCCESS;
}

}  // namespace outrigger::mpi
