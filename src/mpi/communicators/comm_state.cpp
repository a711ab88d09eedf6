#include "mpi/communicators/comm_state.hpp"

#include <array>
#include <cstring>
#include <mutex>
#include <numeric>
#include <utility>

#include "base/futex_lock.hpp"
#include "client/operations/client_group.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/real.hpp"

namespace outrigger::mpi {
namespace {

constinit FutexLock states_mutex;
constinit CommState* all_states = nullptr;

constexpr GroupId kWorldGroup{0x6F75747269676765ULL, 0x72776F726C640000ULL};

std::uint64_t scramble(std::uint64_t word) {
  word ^= word >> 30;
  word *= 0xBF58476D1CE4E5B9ULL;
  word ^= word >> 27;
  word *= 0x94D049BB133111EBULL;
  return word ^ (word >> 31);
}

// 128 bits, so that independently made ids do not collide.
GroupId mix(GroupId id, std::uint64_t kind, std::uint64_t ordinal) {
  const std::uint64_t salt = scramble(kind * 0x9E3779B97F4A7C15ULL + ordinal);
  GroupId mixed;
  mixed.high = scramble(id.high + salt + scramble(id.low ^ 0xA0761D6478BD642FULL));
  mixed.low = scramble(id.low + scramble(salt ^ 0xE7037ED1A0B428DBULL) + scramble(id.high ^ 0x8EBC6AF09C88C6E3ULL));
  return mixed;
}

constinit thread_local bool duplicating = false;

int copy_attribute(MPI_Comm /*comm*/, int /*keyval*/, void* /*extra*/, void* value, void* copy, int* flag) {
  *flag = 0;
  if (!duplicating) return MPI_SUCCESS;
  *static_cast<CommState**>(copy) = static_cast<CommState*>(value)->derive();
  *flag = 1;
  return MPI_SUCCESS;
}

int delete_attribute(MPI_Comm /*comm*/, int /*keyval*/, void* value, void* /*extra*/) {
  auto* state = static_cast<CommState*>(value);
  note_freed_communicator();
  if (current_job() != nullptr) state->note_decisions();
  state->detached();
  state->release();
  return MPI_SUCCESS;
}

// Rank 0 of the communicator makes an id that it makes only once.
std::optional<GroupId> agree_on_id(const Job& job, MPI_Comm comm, int me) {
  static constinit std::atomic<std::uint64_t> created = 0;
  std::array<std::uint64_t, 2> words{};
  if (me == 0) {
    const GroupId made = mix(GroupId{job.world_rank + 1ULL, 0}, 2, created.fetch_add(1, std::memory_order_relaxed));
    words = {made.high, made.low};
  }
  const auto bytes = static_cast<int>(sizeof words);
  if (real().Bcast(words.data(), bytes, constants().byte, 0, comm) != MPI_SUCCESS) return std::nullopt;
  return GroupId{words[0], words[1]};
}

report::Members sequence_of(const std::vector<WorldRank>& members) {
  if (members.size() < 2 || members[1].value() <= members[0].value()) return {};
  const report::Members found{members[0].value(), members[1].value() - members[0].value()};
  for (std::uint32_t i = 0; i < members.size(); ++i) {
    if (members[i].value() != found.first + i * found.stride) return {};
  }
  return found;
}

void attach(const Job& job, MPI_Comm comm, CommState* state) {
  state->attached_to(comm);
  if (real().Comm_set_attr(comm, job.comm_keyval, state) != MPI_SUCCESS) state->release();
}

// `id_of`: of the world rank of the first member and this rank; nullopt if the ranks cannot agree on one.
template <class IdOf>
void adopt_as(const Job& job, MPI_Comm comm, const IdOf& id_of) {
  if (comm == constants().comm_null || is_intercommunicator(comm)) return;
  if (state_of(job, comm) != nullptr) return;
  std::vector<WorldRank> members = world_ranks_of(job, comm);
  if (members.empty()) return;
  int me = 0;
  real().Comm_rank(comm, &me);
  const std::optional<GroupId> id = id_of(members.front(), me);
  if (!id) return;
  const GroupShape shape = shape_of(job.places, members, job.wire);
  attach(job, comm,
         new CommState(job.dispatch, *id, std::make_shared<const std::vector<WorldRank>>(std::move(members)),
                       GroupRank{static_cast<std::uint32_t>(me)}, false, shape));
}

}  // namespace

namespace detail {
constinit std::atomic<std::uint64_t> freed_communicators = 0;
[[gnu::tls_model("initial-exec")]] constinit thread_local KnownState last_asked_for;
}  // namespace detail

void note_freed_communicator() {
  detail::freed_communicators.fetch_add(1, std::memory_order_seq_cst);
}

// MPICH 5 gives a topology of some ranks, when it is not to reorder them, the group of all: the first of it are the
// members.
std::vector<WorldRank> world_ranks_of(const Job& job, MPI_Comm comm) {
  MPI_Group group{};
  int size = 0;
  real().Comm_group(comm, &group);
  real().Comm_size(comm, &size);
  std::vector<int> here(static_cast<std::size_t>(size));
  std::vector<int> there(here.size());
  std::iota(here.begin(), here.end(), 0);
  real().Group_translate_ranks(group, size, here.data(), job.world_group, there.data());
  real().Group_free(&group);
  std::vector<WorldRank> members;
  members.reserve(there.size());
  for (const int rank : there) {
    if (rank < 0) return {};  // MPI_UNDEFINED
    members.emplace_back(static_cast<std::uint32_t>(rank));
  }
  return members;
}

CommState::CommState(const steer::DispatchSettings& settings, GroupId id, Members members, GroupRank me, bool off,
                     const GroupShape& shape, CommState* base)
    : id_(id),
      members_(std::move(members)),
      me_(me),
      shape_(shape),
      base_(base),
      settings_(settings),
      off_at_first_(off) {
  if (base_ != nullptr) base_->retain();
  const std::scoped_lock lock(states_mutex);
  next_ = all_states;
  if (next_ != nullptr) next_->previous_ = this;
  all_states = this;
}

void CommState::release() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  {
    const std::scoped_lock lock(states_mutex);
    (previous_ != nullptr ? previous_->next_ : all_states) = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
  }
  CommState* base = base_;
  delete this;
  if (base != nullptr) base->release();
}

MPI_Comm CommState::error_comm() const {
  if (base_ != nullptr) return base_->error_comm();
  return freed_.load(std::memory_order_acquire) || comm_ == MPI_Comm{} ? constants().comm_world : comm_;
}

std::optional<std::uint64_t> CommState::place_in_calls() const {
  if (base_ != nullptr || freed_.load(std::memory_order_acquire)) return std::nullopt;
  std::uint64_t place = scramble(id_.high + scramble(id_.low));
  place = scramble(place + sequence_.load(std::memory_order_relaxed));
  place = scramble(place + calls_of_team_.load(std::memory_order_relaxed));
  return scramble(place + (known_dispatcher() == nullptr ? 0 : known_dispatcher()->calls()));
}

// Made at first use: counting may begin at any time.
CommRecord* CommState::record() const {
  if (base_ != nullptr) return base_->record();
  CommRecord* known = record_.load(std::memory_order_acquire);
  if (known != nullptr || !observing()) return known;
  CommRecord* made = report_communicator(id_, size(), sequence_of(*members_));
  return record_.compare_exchange_strong(known, made, std::memory_order_acq_rel) ? made : known;
}

void CommState::attached_to(MPI_Comm comm) {
  comm_ = comm;
}

const std::shared_ptr<const client::Group>& CommState::group(client::RankEndpoint& client) {
  if (known_group_.load(std::memory_order_acquire) != nullptr) return group_;
  const std::scoped_lock lock(states_mutex);
  if (group_ == nullptr) group_ = client.define_group(id_, *members_, me_);
  known_group_.store(group_.get(), std::memory_order_release);
  return group_;
}

void CommState::note_decisions() {
  if (base_ != nullptr || me_ != GroupRank{0} || settings_.decisions == nullptr) return;
  if (const steer::Dispatcher* known = known_dispatcher()) settings_.decisions->note(shape_, known->decisions());
}

void CommState::drop_group() {
  known_group_.store(nullptr, std::memory_order_relaxed);
  if (steer::Dispatcher* known = known_dispatcher()) known->close();
  native_tally_ = {};
  group_.reset();
}

void CommState::count_native_call(client::RankEndpoint& client) {
  if (!native_tally_.has_begun())
    native_tally_ = client::NativeTally(client.native_tallies(), id_, sequence_.load(std::memory_order_relaxed));
  native_tally_.count();
}

steer::Dispatcher& CommState::make_dispatcher() {
  const auto open = [this] { return group(*current_job()->client).get(); };
  auto* made = new steer::Dispatcher(settings_, shape_, me_ == GroupRank{0}, off_at_first_, open);
  steer::Dispatcher* known = nullptr;
  if (dispatcher_.compare_exchange_strong(known, made, std::memory_order_acq_rel)) return *made;
  delete made;
  return *known;
}

GroupId CommState::part_id(std::uint64_t ordinal, WorldRank first_member) const {
  return mix(mix(id_, 4, ordinal), 5, first_member.value());
}

CommState* CommState::derive() {
  const std::uint64_t ordinal = dups_.fetch_add(1, std::memory_order_relaxed);
  return new CommState(settings_, mix(id_, 1, ordinal), members_, me_, off_here(), shape_);
}

CommState* CommState::derive_persistent(std::uint64_t ordinal) {
  return new CommState(settings_, mix(id_, 3, ordinal), members_, me_, off_here(), shape_, this);
}

bool register_communicators(Job& job) {
  if (real().Comm_create_keyval(&copy_attribute, &delete_attribute, &job.comm_keyval, nullptr) != MPI_SUCCESS) {
    return false;
  }
  std::vector<WorldRank> members;
  for (std::uint32_t rank = 0; rank < job.world_size; ++rank) members.emplace_back(rank);
  const GroupShape shape = shape_of(job.places, members, job.wire);
  attach(job, constants().comm_world,
         new CommState(job.dispatch, kWorldGroup, std::make_shared<const std::vector<WorldRank>>(std::move(members)),
                       GroupRank{job.world_rank}, false, shape));
  return true;
}

void each_state(const std::function<void(CommState&)>& visit) {
  const std::scoped_lock lock(states_mutex);
  for (CommState* state = all_states; state != nullptr; state = state->next_of()) visit(*state);
}

void keep_decisions(const Job& job) {
  if (job.decisions == nullptr) return;
  {
    const std::scoped_lock lock(states_mutex);
    for (CommState* state = all_states; state != nullptr; state = state->next_of()) state->note_decisions();
  }
  job.decisions->save();
}

void forget_communicators(Job& job) {
  {
    const std::scoped_lock lock(states_mutex);
    for (CommState* state = all_states; state != nullptr; state = state->next_of()) state->drop_group();
  }
  steer::everything_is_off.store(false, std::memory_order_relaxed);
  real().Comm_delete_attr(constants().comm_world, job.comm_keyval);
  real().Comm_free_keyval(&job.comm_keyval);
}

DuplicateScope::DuplicateScope(bool by_program) : before_(std::exchange(duplicating, by_program)) {}

DuplicateScope::~DuplicateScope() {
  duplicating = before_;
}

bool is_intercommunicator(MPI_Comm comm) {
  int inter = 0;
  if (comm != constants().comm_null) real().Comm_test_inter(comm, &inter);
  return inter != 0;
}

bool is_group_of_one(MPI_Comm comm) {
  if (comm == constants().comm_null || is_intercommunicator(comm)) return false;
  int size = 0;
  real().Comm_size(comm, &size);
  return size == 1;
}

CommState* detail::find_state(const Job& job, MPI_Comm comm) {
  const std::uint64_t freed = mpi::freed_communicators();
  void* value = nullptr;
  int found = 0;
  if (comm == mpi::constants().comm_null) return nullptr;
  if (real().Comm_get_attr(comm, job.comm_keyval, static_cast<void*>(&value), &found) != MPI_SUCCESS) return nullptr;
  if (found == 0) return nullptr;
  auto* state = static_cast<CommState*>(value);
  if (!state->has_comm()) state->attached_to(comm);
  last_asked_for = KnownState{comm, state, freed};
  return state;
}

void adopt_part(Job& job, MPI_Comm comm, CommState& parent) {
  const std::uint64_t ordinal = parent.next_part();  // also on ranks that are in no part
  adopt_as(job, comm, [&](WorldRank first, int /*me*/) { return std::optional(parent.part_id(ordinal, first)); });
}

void adopt(Job& job, MPI_Comm comm) {
  adopt_as(job, comm, [&](WorldRank /*first*/, int me) { return agree_on_id(job, comm, me); });
}

std::optional<bool> asked_by(MPI_Info info) {
  if (info == constants().info_null) return std::nullopt;
  std::array<char, 16> text{};
  int found = 0;
  real().Info_get(info, "outrigger", static_cast<int>(text.size()) - 1, text.data(), &found);
  if (found == 0) return std::nullopt;
  return std::strcmp(text.data(), "off") != 0;
}

std::optional<bool> agreed_choice(MPI_Comm comm, MPI_Info info) {
  enum Choice : int { inherit = 0, on = 1, off = 2 };
  const std::optional<bool> asked = asked_by(info);
  int choice = !asked ? inherit : *asked ? on : off;
  real().Bcast(&choice, 1, constants().int32, 0, comm);
  return choice == inherit ? std::nullopt : std::optional(choice == on);
}

void apply_info(Job& job, MPI_Comm comm, MPI_Info info) {
  if (comm == constants().comm_null) return;
  CommState* state = state_of(job, comm);
  if (state == nullptr) return;
  const std::optional<bool> on = agreed_choice(comm, info);
  if (on) state->dispatcher().set_off(!*on);
}

}  // namespace outrigger::mpi
