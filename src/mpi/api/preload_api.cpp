// The functions of outrigger.h that liboutrigger (src/api) finds in a process with this library.
#include <outrigger/outrigger.h>

#include <optional>
#include <string>

#include "mpi/api/counter_values.hpp"
#include "mpi/communicators/switching.hpp"
#include "mpi/job/job.hpp"
#include "mpi/job/standing.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/report/counting.hpp"
#include "mpi/report/on_demand.hpp"
#include "mpi/report/phases.hpp"
#include "report/counters.hpp"
#include "steer/rank/dispatcher.hpp"

namespace outrigger::mpi {
namespace {

// From a Fortran handle. The loaded MPI must have this library's ABI.
MPI_Comm communicator_of(int handle) {
#if defined(OUTRIGGER_ABI_OPENMPI)
  return real().Comm_f2c(handle);
#elif defined(OUTRIGGER_ABI_MPIABI)
  return real().Comm_fromint(handle);
#else
  return handle;
#endif
}

bool is_null(MPI_Comm comm) {
  return comm == MPI_Comm{} || comm == constants().comm_null;
}

bool is_counter(int index) {
  return index >= 0 && static_cast<std::size_t>(index) < report::counters().size();
}

std::optional<CallKind> call_named(const std::string& name) {
  for (std::size_t index = 0; index < kCallKinds; ++index) {
    if (name_of(call_kind_at(index)) == name) return call_kind_at(index);
  }
  return std::nullopt;
}

int hand_over(const std::optional<std::uint64_t>& value, std::uint64_t* target) {
  if (!value) return OUTRIGGER_NOT_COUNTED;
  *target = *value;
  return OUTRIGGER_OK;
}

int result_of(Switched switched, bool before, int* was_on) {
  if (switched == Switched::disagreed) return OUTRIGGER_DISAGREED;
  if (switched == Switched::failed) return OUTRIGGER_MPI_FAILED;
  if (was_on != nullptr) *was_on = before ? 1 : 0;
  return OUTRIGGER_OK;
}

}  // namespace
}  // namespace outrigger::mpi

using namespace outrigger::mpi;  // NOLINT(google-build-using-namespace): what follows has C names

extern "C" {

OUTRIGGER_EXPORT const char* outrigger_preload_version() {
  return OUTRIGGER_VERSION;
}

OUTRIGGER_EXPORT int outrigger_preload_is_active() {
  return current_job() != nullptr ? 1 : 0;
}

OUTRIGGER_EXPORT const char* outrigger_preload_inactive_reason() {
  return why_inactive();
}

OUTRIGGER_EXPORT int outrigger_preload_counter_count() {
  return static_cast<int>(outrigger::report::counters().size());
}

OUTRIGGER_EXPORT int outrigger_preload_counter_info(int index, outrigger_counter* counter) {
  if (counter == nullptr || !is_counter(index)) return OUTRIGGER_BAD_ARGUMENT;
  const outrigger::report::Counter& found = outrigger::report::counters()[static_cast<std::size_t>(index)];
  *counter = {found.name.c_str(), name_of(found.unit), found.description.c_str()};
  return OUTRIGGER_OK;
}

OUTRIGGER_EXPORT int outrigger_preload_counter_index(const char* name, int* index) {
  if (name == nullptr || index == nullptr) return OUTRIGGER_BAD_ARGUMENT;
  const std::optional<std::size_t> found = outrigger::report::find_counter(name);
  if (!found) return OUTRIGGER_BAD_ARGUMENT;
  *index = static_cast<int>(*found);
  return OUTRIGGER_OK;
}

OUTRIGGER_EXPORT int outrigger_preload_counting_start() {
  return count_on_demand() ? OUTRIGGER_OK : OUTRIGGER_NOT_ACTIVE;
}

OUTRIGGER_EXPORT int outrigger_preload_counter_read(int index, std::uint64_t* value) {
  if (value == nullptr || !is_counter(index)) return OUTRIGGER_BAD_ARGUMENT;
  return hand_over(counter_value(static_cast<std::size_t>(index)), value);
}

OUTRIGGER_EXPORT int outrigger_preload_counter_read_comm_f(int comm, const char* call, int index,
                                                           std::uint64_t* value) {
  if (value == nullptr || !is_counter(index)) return OUTRIGGER_BAD_ARGUMENT;
  if (!counting()) return OUTRIGGER_NOT_COUNTED;
  const MPI_Comm communicator = communicator_of(comm);
  const std::optional<outrigger::CallKind> kind = call == nullptr ? std::nullopt : call_named(call);
  if (is_null(communicator) || (call != nullptr && !kind)) return OUTRIGGER_BAD_ARGUMENT;
  return hand_over(counter_value(static_cast<std::size_t>(index), communicator, kind), value);
}

OUTRIGGER_EXPORT int outrigger_preload_phase_push(const char* name) {
  if (name == nullptr) return OUTRIGGER_BAD_ARGUMENT;
  return push_phase(name) ? OUTRIGGER_OK : OUTRIGGER_LIMIT;
}

OUTRIGGER_EXPORT int outrigger_preload_phase_pop() {
  return pop_phase() ? OUTRIGGER_OK : OUTRIGGER_LIMIT;
}

OUTRIGGER_EXPORT int outrigger_preload_switch(int on, int* was_on) {
  Job* job = current_job();
  if (job == nullptr) return OUTRIGGER_NOT_ACTIVE;
  const bool before = !outrigger::steer::everything_is_off.load(std::memory_order_relaxed);
  return result_of(switch_everything(*job, on != 0), before, was_on);
}

OUTRIGGER_EXPORT int outrigger_preload_comm_switch_f(int comm, int on, int* was_on) {
  Job* job = current_job();
  if (job == nullptr) return OUTRIGGER_NOT_ACTIVE;
  const MPI_Comm communicator = communicator_of(comm);
  if (is_null(communicator)) return OUTRIGGER_BAD_ARGUMENT;
  CommState* state = state_of(*job, communicator);
  if (state == nullptr) return OUTRIGGER_NOT_ACTIVE;
  const bool before = !state->off_here();
  return result_of(switch_communicator(communicator, *state, on != 0), before, was_on);
}

}  // extern "C"
