#include "mpi/intranode/rank_team.hpp"

#include <algorithm>
#include <utility>

#include "mpi/intranode/meeting_place.hpp"
#include "mpi/intranode/rank_waiter.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/die.hpp"
#include "mpi/native/real.hpp"

namespace outrigger::mpi {
namespace {

// Limit for a process. Each team takes memory, and time of its ranks to set up.
constexpr std::uint32_t kMostTeams = 128;
constinit std::atomic<std::uint32_t> teams = 0;
// The set-up does not pay in communicators with fewer blocking collectives.
constexpr std::uint32_t kSetUpAt = 16;
// Scratch memory up to this size is kept for the next call.
constexpr std::size_t kKeptScratch = std::size_t{1} << 20;

// A duplicate counts its own calls.
int no_copy_of_team(MPI_Comm /*comm*/, int /*keyval*/, void* /*extra*/, void* /*value*/, void* /*copy*/, int* flag) {
  *flag = 0;
  return MPI_SUCCESS;
}

int delete_team(MPI_Comm /*comm*/, int /*keyval*/, void* value, void* /*extra*/) {
  note_freed_communicator();
  delete static_cast<RankTeam*>(value);
  return MPI_SUCCESS;
}

}  // namespace

RankTeam::RankTeam(std::uint32_t rank, std::uint32_t size, std::uint32_t set_up_at)
    : rank_(rank), size_(size), set_up_at_(set_up_at) {}

RankTeam::~RankTeam() {
  if (team_) teams.fetch_sub(1, std::memory_order_relaxed);
}

void RankTeam::set_up(Job& job, MPI_Comm comm) {
  native_.store(true, std::memory_order_relaxed);
  if (!may_meet(job, comm)) return;
  const bool has_room = teams.fetch_add(1, std::memory_order_relaxed) < kMostTeams;
  std::optional<MeetingPlace> met = meet(comm, rank_, size_, has_room);
  if (!met) {
    teams.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  waiter_ = std::make_unique<RankWaiter>(job, std::move(met->pids));
  team_.emplace(std::move(met->area), rank_, *waiter_);
  if (team_->open() != intranode::Outcome::done) die("the ranks of a communicator could not meet");
  native_.store(false, std::memory_order_relaxed);
}

// From what all members know alike.
bool RankTeam::may_meet(const Job& job, MPI_Comm comm) const {
  if (size_ > intranode::kMostMembers) return false;
  const std::vector<WorldRank> members = world_ranks_of(job, comm);
  if (members.size() != size_ || job.places.empty()) return false;
  const std::uint32_t node = job.places[members.front().value()].node;
  return std::ranges::all_of(members, [&](WorldRank member) { return job.places[member.value()].node == node; });
}

RankTeam::Kind* RankTeam::kind_of(const TeamCallKey& key) {
  for (const std::unique_ptr<Kind>& kind : kinds_) {
    if (kind->key == key) return kind.get();
  }
  if (kinds_.size() == kMostKinds) return nullptr;
  auto kind = std::make_unique<Kind>();
  kind->key = key;
  kinds_.push_back(std::move(kind));
  return kinds_.back().get();
}

void RankTeam::judge(steer::TurnsTrial& trial) {
  times_.resize(size_);
  const auto mine = std::as_bytes(std::span(&trial.times(), 1));
  const auto all = std::as_writable_bytes(std::span(times_));
  const auto blocks = intranode::Blocks::regular(all.data(), mine.size());
  if (team_->allgather(mine, blocks) != intranode::Outcome::done)
    die("the ranks could not tell each other their times");
  trial.judge(times_);
}

const intranode::Combine& RankTeam::combine(const Reduction& reduction, std::uint32_t members) {
  for (const KnownCombine& known : combines_) {
    if (known.reduction == reduction && known.members == members) return *known.combine;
  }
  auto made = std::make_unique<intranode::TreeCombine>(intranode::TreeCombine::in_rank_order(reduction, members));
  return *combines_.emplace_back(KnownCombine{reduction, members, std::move(made)}).combine;
}

std::byte* RankTeam::scratch(std::size_t which, std::size_t bytes) {
  if (scratch_[which].size() < bytes) scratch_[which].resize(bytes);
  return scratch_[which].data();
}

void RankTeam::give_back_scratch() {
  for (std::vector<std::byte>& memory : scratch_) {
    if (memory.size() > kKeptScratch) std::vector<std::byte>().swap(memory);
  }
}

void RankTeam::enters(CollectiveCall call) {
  waiter_->enters(call);
}

bool register_teams(Job& job) {
  return real().Comm_create_keyval(&no_copy_of_team, &delete_team, &job.team_keyval, nullptr) == MPI_SUCCESS;
}

void forget_teams(Job& job) {
  if (job.team_keyval == MPI_KEYVAL_INVALID) return;
  real().Comm_delete_attr(constants().comm_world, job.team_keyval);
  real().Comm_free_keyval(&job.team_keyval);
}

namespace detail {

[[gnu::tls_model("initial-exec")]] constinit thread_local KnownTeam known_team;

RankTeam* look_up_team(const Job& job, MPI_Comm comm) {
  if (comm == mpi::constants().comm_null) return nullptr;
  const std::uint64_t freed = mpi::freed_communicators();
  void* value = nullptr;
  int found = 0;
  if (real().Comm_get_attr(comm, job.team_keyval, static_cast<void*>(&value), &found) != MPI_SUCCESS) return nullptr;
  if (found == 0) {
    int rank = 0;
    int size = 0;
    real().Comm_rank(comm, &rank);
    real().Comm_size(comm, &size);
    const std::uint32_t set_up_at = job.config.intranode == Config::Intranode::always ? 1 : kSetUpAt;
    auto made =
        std::make_unique<RankTeam>(static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(size), set_up_at);
    // Before any argument is read: the lists of an intercommunicator are as long as the other group.
    if (size < 2 || is_intercommunicator(comm)) made->stay_native();
    if (real().Comm_set_attr(comm, job.team_keyval, made.get()) != MPI_SUCCESS) return nullptr;
    value = made.release();
  }
  known_team = KnownTeam{comm, static_cast<RankTeam*>(value), freed};
  return known_team.team;
}

}  // namespace detail
}  // namespace outrigger::mpi
