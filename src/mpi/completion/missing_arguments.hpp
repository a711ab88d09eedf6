// Completion calls with NULL outputs: the MPI decides what to do. It gets a request of its own in place of the
// program's, so that none of ours can be lost.
#pragma once

#include <optional>

#include "mpi/completion/native_twin.hpp"
#include "mpi/native/abi.hpp"
#include "mpi/native/real.hpp"

namespace outrigger::mpi {

[[nodiscard]] inline bool is_missing(int /*count*/) {
  return false;
}
[[nodiscard]] inline bool is_missing(const void* argument) {
  return argument == nullptr;
}
// Under some ABIs this value means that no status is wanted.
[[nodiscard]] inline bool is_missing(const MPI_Status* statuses) {
  return statuses == nullptr && statuses != MPI_STATUSES_IGNORE;
}

// The call, with one request of the MPI's own instead of the program's.
template <class... Rest>
int ask_with(MPI_Request* own, Call call, MPI_Request* /*request*/, Rest... rest) {
  return pass(call, own, rest...);
}
template <class... Rest>
int ask_with(MPI_Request* own, Call call, int /*count*/, MPI_Request* /*requests*/, Rest... rest) {
  return pass(call, 1, own, rest...);
}

// The code to return if the MPI rejects a call with such arguments; its error handler has been called. `like`: the
// communicator of one of the call's requests.
template <class... Args>
std::optional<int> refusal_of_missing(MPI_Comm like, Call call, Args... args) {
  if (!(is_missing(args) || ...)) return std::nullopt;
  NativeTwin twin(like, NativeTwin::Progress::complete);
  const int code = ask_with(twin.request(), call, args...);
  return twin.is_gone() ? std::nullopt : std::optional(code);
}

}  // namespace outrigger::mpi
