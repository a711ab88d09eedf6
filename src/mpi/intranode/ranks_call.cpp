#include "mpi/intranode/ranks_call.hpp"

#include <cstring>
#include <string>
#include <utility>

#include "base/tick_clock.hpp"
#include "mpi/intranode/team_blocks.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/die.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/report/counting.hpp"

namespace outrigger::mpi {
namespace {

using intranode::Outcome;

// A rule of the user's, or a table for several nodes, says how such calls are done.
bool is_for_services(const Job& job, MPI_Comm comm, const TeamArguments& arguments) {
  if (job.client == nullptr || !job.config.blocking) return false;
  const CommState* state = state_of(job, comm);
  if (state == nullptr) return false;
  const Collective collective = *offloaded_as(arguments.call);
  const auto bytes = has_alike_blocks(collective) ? arguments.block_bytes() : std::nullopt;
  return job.config.selection.decide(true, collective, state->shape(), bytes).considered;
}

// The program has switched the communicator off.
bool is_switched_off(const Job& job, MPI_Comm comm) {
  if (job.client == nullptr) return false;
  CommState* state = state_of(job, comm);
  return state == nullptr || state->by_program().off();
}

class Performance {
 public:
  Performance(const Job& job, RankTeam& ranks, const TeamArguments& arguments)
      : job_(job),
        ranks_(ranks),
        team_(ranks.team()),
        call_(arguments),
        root_(static_cast<std::uint32_t>(arguments.root)) {}

  Outcome run() {
    switch (call_.call) {
      case CollectiveCall::barrier: return team_.barrier();
      case CollectiveCall::bcast: return broadcast();
      default: die("%s is not done by ranks", name_of(CallKind{call_.call, CallForm::blocking}).c_str());
    }
  }

 private:
  Outcome broadcast() {
    TeamBlock block(job_, ranks_, 0, call_.send, call_.send.count);
    const bool sends = root_ == ranks_.rank();
    if (sends) block.pack();
    const Outcome outcome = team_.broadcast(block.bytes(), root_);
    if (!sends) block.unpack();
    return outcome;
  }

  const Job& job_;
  RankTeam& ranks_;
  intranode::Team& team_;
  const TeamArguments& call_;
  std::uint32_t root_;
};

}  // namespace

RanksCall::RanksCall(Job& job, CollectiveCall call, std::span<const Word> words, bool large_counts) : job_(job) {
  const auto comm = argument<MPI_Comm>(words[static_cast<std::size_t>(arguments_of(call).comm)]);
  team_ = team_of(job, comm);
  if (team_ == nullptr || team_->is_native()) return;
  arguments_ = TeamArguments::of(call, words, large_counts);
  if (!arguments_.valid(job, *team_) || !team_->joins(job, comm)) return;
  if (is_switched_off(job, comm) || is_for_services(job, comm, arguments_)) return;
  choose();
}

void RanksCall::choose() {
  const std::optional<TeamCallKey> key = arguments_.key();
  kind_ = key ? team_->kind_of(*key) : nullptr;
  if (kind_ == nullptr) return;
  if (kind_->trial.is_over()) team_->judge(kind_->trial);
  turn_ = kind_->trial.next();
  if (turn_.timed) began_ns_ = TickClock::now_ns();
}

void RanksCall::note_time() {
  kind_->trial.note(turn_, {began_ns_, TickClock::now_ns()});
}

int RanksCall::perform() {
  if (CallCount* count = observing() ? CallCount::current() : nullptr) count->done_by_ranks();
  team_->enters(arguments_.call);
  if (Performance(job_, *team_, arguments_).run() != Outcome::done) die("a collective by ranks has not ended");
  team_->give_back_scratch();
  ended();
  return MPI_SUCCESS;
}

}  // namespace outrigger::mpi
