#include "mpi/communicators/switching.hpp"

#include <array>

#include "mpi/communicators/off_marks.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/native/message.hpp"
#include "mpi/native/real.hpp"

namespace outrigger::mpi {
namespace {

// This rank's term of a sum over the communicator that is 0 if all ranks are at the same place.
std::uint64_t part_of_place(const CommState& state) {
  const std::uint64_t place = state.place_in_calls().value_or(0);
  return state.me() == GroupRank{0} ? place * (state.size() - 1) : std::uint64_t{0} - place;
}

Switched agree(MPI_Comm comm, std::uint32_t size, bool on, std::uint64_t place) {
  const std::array<std::uint64_t, 2> mine{place, on ? 1U : 0U};
  std::array<std::uint64_t, 2> all{};
  const int code = real().Allreduce(mine.data(), all.data(), 2, constants().uint64, constants().sum, comm);
  if (code != MPI_SUCCESS) return Switched::failed;
  const bool same_place = all[0] == 0;
  const bool same_vote = all[1] == (on ? size : 0);
  return same_place && same_vote ? Switched::done : Switched::disagreed;
}

// MPI_Comm_set_info. Without the key there is no communication: programs that do not know it must not wait here.
struct SetInfo {
  template <Call call>
  static int run(const CallSite& site, Word comm, Word info) {
    const int code = site.pass(call, comm, info);
    Job* job = intranode_job() != nullptr ? intranode_job() : current_job();
    if (code == MPI_SUCCESS && job != nullptr && !site.inside_mpi()) {
      const std::optional<bool> on = asked_by(argument<MPI_Info>(info));
      if (on) apply(*job, argument<MPI_Comm>(comm), *on);
    }
    return code;
  }

 private:
  static Switched make(Job& job, MPI_Comm comm, bool on) {
    if (job.client == nullptr) return mark(job, comm, on);
    CommState* state = state_of(job, comm);
    return state == nullptr ? Switched::done : switch_communicator(comm, *state, on);
  }
  static Switched mark(const Job& job, MPI_Comm comm, bool on) {
    if (is_intercommunicator(comm)) return Switched::done;
    int size = 0;
    real().Comm_size(comm, &size);
    const Switched agreed = agree(comm, static_cast<std::uint32_t>(size), on, 0);
    if (agreed == Switched::done) mark_off(job, comm, !on);
    return agreed;
  }
  static void apply(Job& job, MPI_Comm comm, bool on) {
    if (make(job, comm, on) != Switched::disagreed) return;
    int rank = 0;
    real().Comm_rank(comm, &rank);
    if (rank != 0) return;
    print("the ranks of a communicator disagree on the info key outrigger: it stays as it was; give it to %s",
          "MPI_Comm_set_info on all of them, at the same place");
  }
};

}  // namespace

Switched switch_communicator(MPI_Comm comm, CommState& state, bool on) {
  const Switched agreed = agree(comm, state.size(), on, part_of_place(state));
  if (agreed != Switched::done) return agreed;
  state.interrupt_trials();
  state.dispatcher().set_off(!on);
  return agreed;
}

Switched switch_everything(Job& job, bool on) {
  std::uint64_t place = 0;
  each_state([&](const CommState& state) { place += part_of_place(state); });
  const Switched agreed = agree(constants().comm_world, job.world_size, on, place);
  if (agreed != Switched::done) return agreed;
  each_state([](CommState& state) { state.interrupt_trials(); });
  steer::everything_is_off.store(!on, std::memory_order_relaxed);
  return agreed;
}

OUTRIGGER_ENTRY(Comm_set_info, 2, SetInfo)

}  // namespace outrigger::mpi
