#include "mpi/collectives/posted_by_ranks.hpp"

#include <algorithm>
#include <cstring>

#include "mpi/collectives/offloaded_collective.hpp"
#include "mpi/communicators/comm_state.hpp"
#include "mpi/completion/waiting.hpp"
#include "mpi/intranode/rank_team.hpp"
#include "mpi/intranode/ranks_call.hpp"
#include "mpi/intranode/team_posts.hpp"
#include "mpi/job/job.hpp"
#include "mpi/memory/accelerators.hpp"
#include "mpi/report/counting.hpp"
#include "mpi/report/report.hpp"

namespace outrigger::mpi {
namespace {

// A rule of the user's decides.
bool is_for_services(const Job& job, const CommState& state, CollectiveCall call, std::uint64_t bytes) {
  const Decision decision = job.config.selection.decide(false, *offloaded_as(call), state.shape(), bytes);
  return decision.by_user || decision.algorithm.has_value();
}

bool may_be_like(Word word, Word last) {
  return word == last || (is_ordinary(word) && is_ordinary(last));
}

// The last call again, but for its buffers, which are taken over.
bool is_again(TeamPosts::Last& last, std::span<const Word> words, bool large) {
  if (!last.known || last.large != large || accelerator_loaded()) return false;
  if (std::memcmp(words.data(), last.words.data(), words.size_bytes()) == 0) return true;
  TeamArguments& call = last.arguments;
  const BufferPlaces buffers = buffer_places(call.call);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (buffers.has(i) ? !may_be_like(words[i], last.words[i]) : words[i] != last.words[i]) return false;
  }
  const bool has_two = buffers.receive < words.size();
  if (has_two && words[buffers.send] == words[buffers.receive]) return false;  // the MPI may refuse that
  if (buffers.send < words.size()) call.send.buffer = argument<const void*>(words[buffers.send]);
  if (has_two) call.receive.buffer = argument<const void*>(words[buffers.receive]);
  std::ranges::copy(words, last.words.begin());
  return true;
}

// False: nothing is known of the call, which is native.
bool look_at(Job& job, RankTeam& team, TeamPosts::Last& last, std::span<const Word> words, bool large,
             CollectiveCall collective) {
  last.known = false;
  last.large = large;
  last.arguments = TeamArguments::of(collective, words, large);
  TeamArguments& call = last.arguments;
  const MPI_Comm comm = argument<MPI_Comm>(words[static_cast<std::size_t>(arguments_of(collective).comm)]);
  last.state = state_of(job, comm);
  if (last.state == nullptr || !call.valid(job, team.place())) return false;
  const auto root = static_cast<std::uint32_t>(call.root);
  last.looked_at = intranode::CallWord(collective, root, call.block_bytes().value_or(0));
  const std::optional<PostPlan> plan = plan_post(call, team.place());
  last.by_ranks = plan && !is_for_services(job, *last.state, collective, plan->block_bytes);
  if (last.by_ranks) {
    last.plan = *plan;
    last.looked_at = plan->said;
  }
  std::ranges::copy(words, last.words.begin());
  last.known = call.tells_by_words();
  return true;
}

// An operation that the program leaves uncollected for long would keep its place, and those of all later ones.
void go_on(Job& job, const TeamPosts& ranks) {
  if (ranks.posts()->has_old()) collect_posted(job);
  drive_native();
}

}  // namespace

bool post_by_ranks(Job& job, RankTeam& team, CollectiveCall call, std::span<const Word> words, bool large_counts) {
  TeamPosts& ranks = *team.posts();
  ranks.looks_at(intranode::CallWord());
  if (!is_done_by_posts(call) || team.is_native() || team.is_off()) return false;
  auto* const request = argument<MPI_Request*>(words.back());
  if (request == nullptr) return false;
  TeamPosts::Last& last = ranks.last(call);
  const std::span<const Word> given = words.first(words.size() - 1);
  if (!is_again(last, given, large_counts) && !look_at(job, team, last, given, large_counts, call)) return false;
  if (!last.by_ranks || last.state->off() || !ranks.posts()->goes_on()) {
    ranks.looks_at(last.looked_at);
    return false;
  }
  if (ranks.owes_progress()) go_on(job, ranks);
  Operation& operation = *make_operation();
  operation.comm = last.state;
  operation.by_ranks = true;
  operation.posted.post(job, ranks.posts(), last.plan, last.arguments);
  if (observing()) [[unlikely]]
    count_posted_by_ranks(operation);
  const bool others_need_turn = job.cores == copy::RankCores::shared_with_ranks && !operation.posted.is_due();
  launch_by_ranks(operation);
  *request = operation.request;
  last.state->count_native_call();
  if (others_need_turn) {
    note_needed_turn();
    let_others_post();
  }
  return true;
}

}  // namespace outrigger::mpi
