#include "mpi/intranode/rank_team.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/accessible_memory.hpp"
#include "mpi/communicators/off_marks.hpp"
#include "mpi/intranode/meeting_place.hpp"
#include "mpi/intranode/rank_waiter.hpp"
#include "mpi/intranode/team_orders.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/attributes.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/die.hpp"
#include "mpi/native/message.hpp"
#include "mpi/native/real.hpp"

namespace outrigger::mpi {
namespace {

// Limit for a process. Each team takes memory, and time of its ranks to set up.
constexpr std::uint32_t kMostTeams = 128;
constinit std::atomic<std::uint32_t> teams = 0;
// The set-up does not pay in communicators with fewer blocking collectives.
constexpr std::uint32_t kSetUpAt = 16;
// Limit for a communicator. Each rank keeps a list of the others, and of their times after a trial.
constexpr std::uint32_t kMostRanks = 4096;
// Limit for the blocks of a call. Ranks may have to pack them, and gain least with long ones.
constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;

// Under Yama other ranks may not copy from and to this one's memory otherwise. Any process, as service processes need
// it, and some MPIs, too: a narrower setting would affect these. Fails without Yama, where it is not needed.
void let_others_copy() {
#ifdef PR_SET_PTRACER
  static_cast<void>(::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0));
#endif
}

// MPIs send longer blocks when the receiver is there.
constexpr std::uint64_t kMostBytesAhead = 4096;

bool has_own_core(const Job& job) {
  return job.cores != copy::RankCores::shared_with_ranks;
}

// Ranks that share cores gain nothing: a wait is a turn of another rank on either way. Requests need service processes.
bool gains_by_posts(const Job& job) {
  const bool always = job.config.intranode == Config::Intranode::always;
  return job.client != nullptr && (always || has_own_core(job));
}

// For short calls in two levels. Nothing without `cores`: where ranks share cores, a level more takes them more turns.
std::optional<intranode::Branches> branches_of(const Job& job, const std::vector<intranode::CorePlace>& cores,
                                               std::uint32_t members) {
  using intranode::Branches;
  if (job.config.pretend_caches != 0) return Branches::in_a_row(members, job.config.pretend_caches);
  return cores.empty() ? std::nullopt : Branches::near(cores);
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
  shares_core_ = job.cores == copy::RankCores::shared_with_ranks;
  const std::optional<NodesMap> map = map_of(job, comm);
  if (!map) return;
  const bool has_room = teams.fetch_add(1, std::memory_order_relaxed) < kMostTeams && may_make_rare_calls();
  std::optional<MeetingPlace> met = meet(comm, rank_, *map, {has_room, has_own_core(job), gains_by_posts(job)});
  if (!met) {
    teams.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  const std::uint32_t local = map->local_of(rank_);
  memory_ = std::make_unique<intranode::CrossMemory>(met->pids);
  waiter_ =
      std::make_unique<RankWaiter>(job, local, met->area, std::move(met->pids), map->ranks_of(map->node_of(rank_)));
  doing_ = &met->area.member(local).doing;
  team_.emplace(std::move(met->area), local, *waiter_);
  if (const auto branches = branches_of(job, met->cores, team_->size())) team_->divide(*branches);
  if (met->posts) posts_ = std::make_unique<TeamPosts>(std::move(*met->posts), rank_);
  std::unique_ptr<OrderTalk> talk;
  if (met->leaders) {
    nodes_ = std::make_unique<NodesTeam>(*team_, std::move(*met->leaders), *map, rank_);
    talk = std::make_unique<TalkOf<NodesTeam>>(*nodes_, place());
  } else {
    talk = std::make_unique<TalkOf<intranode::Team>>(*team_, place());
  }
  orders_ = std::make_unique<TeamOrders>(job, std::move(talk), nodes_.get(), *waiter_, world_ranks_of(job, comm));
  let_others_copy();
  if (team_->open(*memory_) != intranode::Outcome::done) die("the ranks of a communicator could not meet");
  native_.store(false, std::memory_order_relaxed);
}

// From what all members know alike.
std::optional<NodesMap> RankTeam::map_of(const Job& job, MPI_Comm comm) const {
  if (size_ > kMostRanks) return std::nullopt;
  const std::vector<WorldRank> members = world_ranks_of(job, comm);
  if (members.size() != size_ || job.places.empty()) return std::nullopt;
  std::vector<std::uint32_t> nodes;
  for (const WorldRank member : members) nodes.push_back(job.places[member.value()].node);
  NodesMap map(nodes);
  const bool may_meet = map.largest() > 1 && map.largest() <= intranode::kMostMembers;
  return may_meet ? std::optional(std::move(map)) : std::nullopt;
}

bool RankTeam::takes(const TeamArguments& arguments) const {
  const std::optional<std::uint64_t> bytes = arguments.block_bytes();
  if (nodes_ == nullptr) return is_reduction(arguments.call) || bytes.value_or(0) <= kMostBytes / size_;
  if (!bytes || !nodes_->takes(arguments.call, *bytes)) return false;
  if (!arguments.reduction || has_native_bits(*arguments.reduction)) return true;
  if (arguments.order == RankOrder::ranks) return nodes_->takes_in_order(*bytes);
  // All ranks have the same result, and so come to the same about its bits.
  return arguments.call == CollectiveCall::allreduce && (rounds(*arguments.reduction) || nodes_->takes_extrema(*bytes));
}

// Can ranks copy both directly and through slots?
bool RankTeam::has_two_ways(const TeamCallKey& key, CollectiveCall call) const {
  if (is_reduction(call) || call == CollectiveCall::barrier || call == CollectiveCall::gatherv) return false;
  constexpr steer::CallKey kShortest = steer::CallKey::of(Collective::ibcast, true, intranode::kDirectBytes);
  return nodes_ == nullptr && team_->copies_directly() && key.call.size_class() >= kShortest.size_class();
}

// In short calls of which some rank needs nothing from the others.
bool RankTeam::may_run_ahead(const TeamCallKey& key, CollectiveCall call) const {
  constexpr steer::CallKey kLongest = steer::CallKey::of(Collective::ibcast, true, kMostBytesAhead);
  if (nodes_ != nullptr || key.call.size_class() > kLongest.size_class()) return false;
  switch (call) {
    case CollectiveCall::bcast:
    case CollectiveCall::gather:
    case CollectiveCall::gatherv:
    case CollectiveCall::scatter:
    case CollectiveCall::scatterv:
    case CollectiveCall::reduce:
    case CollectiveCall::scan:
    case CollectiveCall::exscan: return true;
    default: return false;
  }
}

RankTeam::Kind* RankTeam::kind_of(const TeamCallKey& key, CollectiveCall call) {
  for (const std::unique_ptr<Kind>& kind : kinds_) {
    if (kind->key == key) return kind.get();
  }
  if (kinds_.size() == kMostKinds) return nullptr;
  kinds_.push_back(std::make_unique<Kind>(key, steer::TurnsTrial::Options{.looks = has_seen_sizes(call),
                                                                          .tries_slots = has_two_ways(key, call),
                                                                          .runs_ahead = may_run_ahead(key, call),
                                                                          .shares_core = shares_core_}));
  return kinds_.back().get();
}

bool RankTeam::judge(steer::TurnsTrial& trial) {
  times_.resize(size_);
  if (!gather_times(trial.times())) return false;
  trial.judge(times_);
  if (nodes_ != nullptr) std::vector<steer::TurnTimes>().swap(times_);  // of up to 4,096 ranks
  return true;
}

bool RankTeam::gather_times(const steer::TurnTimes& mine) {
  const auto all = std::as_writable_bytes(std::span(times_));
  const auto blocks = intranode::Blocks::regular(all.data(), sizeof mine);
  if (nodes_ == nullptr)
    return team_->allgather(std::as_bytes(std::span(&mine, 1)), blocks) == intranode::Outcome::done;
  std::int64_t ahead_ns = 0;
  if (nodes_->compare_clocks(ahead_ns) != intranode::Outcome::done) return false;
  const steer::TurnTimes moved = mine.later_by(ahead_ns);
  return nodes_->allgather(std::as_bytes(std::span(&moved, 1)), blocks) == intranode::Outcome::done;
}

const intranode::SumOrder& RankTeam::rank_order(std::uint32_t members) {
  std::unique_ptr<const intranode::SumOrder>& known = rank_orders_.at(members);
  if (known == nullptr) known = std::make_unique<intranode::SumOrder>(intranode::SumTree::linear(members));
  return *known;
}

int RankTeam::fail(MPI_Comm comm, CollectiveCall call) {
  // The node's team knows only its part of the call.
  if (nodes_ != nullptr && team_->difference()) waiter_->differs_from(team_->difference()->other);
  doing_->store(intranode::CallWord().tagged(begun_).word(), std::memory_order_release);
  stay_native();
  const std::string name = name_of(CallKind{call, CallForm::blocking});
  if (nodes_ != nullptr && nodes_->error() != MPI_SUCCESS) {
    print("%s on a communicator of %u ranks failed: the MPI's call between the nodes returned an error", name.c_str(),
          size_);
    const int code = nodes_->error();
    real().Comm_call_errhandler(comm, code);  // which may free the communicator, and so this team
    return code;
  }
  const std::optional<intranode::Difference> difference =
      nodes_ == nullptr ? team_->difference() : nodes_->difference();
  const RankWaiter::Reason& reason = waiter_->reason();
  const std::string why = difference ? difference->description(rank_) : reason.words;
  print("%s on a communicator of %u ranks failed: the ranks' calls differ: %s", name.c_str(), size_, why.c_str());
  const int of_difference = difference && difference->is_of_sizes() ? MPI_ERR_TRUNCATE : MPI_ERR_OTHER;
  const int code = difference ? of_difference : reason.code;
  real().Comm_call_errhandler(comm, code);
  return code;
}

bool register_teams(Job& job) {
  return real().Comm_create_keyval(&attribute_not_copied, &delete_team, &job.team_keyval, nullptr) == MPI_SUCCESS;
}

void forget_teams(Job& job) {
  if (job.team_keyval == MPI_KEYVAL_INVALID) return;
  // To delete what was never set is an error, which may end the program.
  void* value = nullptr;
  int found = 0;
  real().Comm_get_attr(constants().comm_world, job.team_keyval, static_cast<void*>(&value), &found);
  if (found != 0) real().Comm_delete_attr(constants().comm_world, job.team_keyval);
  Leaders::end();
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
    // Sums in an order of our own are so from the first call on.
    const bool at_once = job.config.intranode == Config::Intranode::always || job.config.sums == Config::Sums::any;
    const std::uint32_t set_up_at = at_once ? 1 : kSetUpAt;
    auto made =
        std::make_unique<RankTeam>(static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(size), set_up_at);
    // Before any argument is read: the lists of an intercommunicator are as long as the other group.
    if (size < 2 || is_intercommunicator(comm)) made->stay_native();
    if (real().Comm_set_attr(comm, job.team_keyval, made.get()) != MPI_SUCCESS) return nullptr;
    value = made.release();
  }
  auto* team = static_cast<RankTeam*>(value);
  team->set_off(is_marked_off(job, comm));
  known_team = KnownTeam{comm, team, freed};
  return team;
}

}  // namespace detail
}  // namespace outrigger::mpi
