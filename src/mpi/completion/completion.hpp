// The completion calls while offloaded operations are outstanding. The native MPI never sees our requests in these
// calls: it completes the others. So two threads that complete one request do not meet inside the MPI.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "mpi/collectives/offloaded_collective.hpp"
#include "mpi/completion/missing_arguments.hpp"
#include "mpi/completion/request_table.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/abi.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/report/call_sites.hpp"
#include "mpi/report/native_requests.hpp"
#include "mpi/report/present_message.hpp"
#include "mpi/report/window_rows.hpp"
#include "steer/rank/trial_clock.hpp"

namespace outrigger::mpi {

// Our requests in an array. No allocation for a handful; nothing here is quadratic.
class OurRequests {
 public:
  explicit OurRequests(std::span<const MPI_Request> requests);

  struct Entry {
    std::size_t index;     // in the array
    Operation* operation;  // held
    bool inactive;         // a persistent one that is not started; counts as done
    bool done;
    int error;  // of the operation, once done
  };
  ~OurRequests();
  OurRequests(const OurRequests&) = delete;
  OurRequests& operator=(const OurRequests&) = delete;

  [[nodiscard]] bool empty() const { return entries().empty(); }
  // One is of an operation that ranks do by themselves.
  [[nodiscard]] bool are_of_ranks() const { return of_ranks_; }
  [[nodiscard]] std::span<Entry> entries() { return {data(), size_}; }
  [[nodiscard]] std::span<const Entry> entries() const { return {data(), size_}; }
  // Checks all unfinished requests. True: at least one is done.
  bool progress_any(Job& job);
  // True: all are done.
  bool progress_all(Job& job);

  // The first active and done request in the array from `index` on; nullptr if there is none.
  [[nodiscard]] const Entry* first_done(std::size_t index) const;
  // Gives a done request to the program: sets its request to null and its status. Does nothing if another thread has
  // collected it.
  static void collect(const Entry& entry, MPI_Request* requests, MPI_Status* status);
  // The same in a call with several statuses, each of which has an error.
  static void collect_among(const Entry& entry, MPI_Request* requests, MPI_Status* status);

  // After collection: raises errors of our requests and returns the call's code. One request, `index` in the array.
  [[nodiscard]] int result_of_one(int code, int index) const;
  // Several: statuses[i] belongs to request i of the array if it was collected whole, else to request indices[i].
  [[nodiscard]] int result_of_many(int code, std::span<const int> indices, bool whole_array, int collected,
                                   MPI_Status* statuses) const;
  // The same for Waitsome and Testsome, from their outputs.
  [[nodiscard]] int result_of_some(int code, const int* indices, const int* collected, MPI_Status* statuses) const;

 private:
  static constexpr std::size_t kInline = 16;
  [[nodiscard]] Entry* data() { return many_.empty() ? few_.data() : many_.data(); }
  [[nodiscard]] const Entry* data() const { return many_.empty() ? few_.data() : many_.data(); }
  [[nodiscard]] const Entry* entry_at(std::size_t index) const;
  void look_at(Job& job, Entry& entry);
  void add(std::size_t index, Operation& operation);

  std::array<Entry, kInline> few_;  // the first `size_` are written
  std::vector<Entry> many_;
  std::size_t size_ = 0;
  bool of_ranks_ = false;
  bool failed_ = false;  // one of them has an error
};

// The array for the native MPI. Our requests are null in it if they are done. Otherwise, or always, they are a request
// that never completes, so that the native MPI finds the array neither complete nor without active requests. Changes of
// the others are copied to the program's array.
class NativeRequests {
 public:
  enum class Done : std::uint8_t { null, open };
  NativeRequests(const OurRequests& ours, MPI_Request* requests, int count, Done done = Done::null);
  NativeRequests(const NativeRequests&) = delete;
  NativeRequests& operator=(const NativeRequests&) = delete;
  ~NativeRequests();
  [[nodiscard]] MPI_Request* data() { return many_.empty() ? few_.data() : many_.data(); }

 private:
  static constexpr std::size_t kInline = 16;
  const OurRequests& ours_;
  const std::span<MPI_Request> requests_;
  std::array<MPI_Request, kInline> few_;
  std::vector<MPI_Request> many_;
};

// Status of an inactive request.
void set_empty(MPI_Status* status);
[[nodiscard]] inline MPI_Status* status_at(MPI_Status* statuses, std::size_t index) {
  return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : statuses + index;
}
// The call's only request, which is ours and done. Returns the code.
[[nodiscard]] int collect_only(const OurRequests& ours, MPI_Request* request, MPI_Status* status);
// Collects our first done request if the native MPI has found none of its own. nullopt if there is none; else the code.
[[nodiscard]] std::optional<int> collect_any(const OurRequests& ours, MPI_Request* requests, int* index,
                                             MPI_Status* status);
// Collects all our done requests and appends them to the native MPI's, which may be none.
void collect_some(const OurRequests& ours, MPI_Request* requests, int* collected, int* indices, MPI_Status* statuses);

// Collects all our done requests after the native MPI has completed its own with `code`; returns the call's code. If
// one of the MPI's has failed, MPICH completes the done ones and leaves the rest.
[[nodiscard]] int collect_all(const OurRequests& ours, int count, MPI_Request* requests, MPI_Status* statuses,
                              int code);

// The requests of a call; empty if the native MPI must reject its arguments.
[[nodiscard]] inline std::span<const MPI_Request> span_of(const MPI_Request* requests, int count) {
  if (requests == nullptr || count <= 0) return {};
  return {requests, static_cast<std::size_t>(count)};
}

// The job, if one of our requests is outstanding; nullptr: all requests are the native MPI's. The caller does not
// matter: if a callback ends with the call, the return address is in the MPI.
[[nodiscard]] inline Job* job_to_complete() {
  return nothing_outstanding() ? nullptr : current_job();
}

[[nodiscard]] bool is_in_status(int code);
// An output that the MPI has not written because it rejects an argument. Its code does not always show that:
// native_twin.hpp.
inline constexpr int kUnwritten = std::numeric_limits<int>::min();

// The requests of a call, by its first arguments.
template <class... Rest>
[[nodiscard]] std::span<const MPI_Request> requests_of(const MPI_Request* request, Rest... /*rest*/) {
  return span_of(request, 1);
}
template <class... Rest>
[[nodiscard]] std::span<const MPI_Request> requests_of(int count, const MPI_Request* requests, Rest... /*rest*/) {
  return span_of(requests, count);
}

// Entry points of the completion calls (entry.hpp): calls `complete`, of type int(Job&, OurRequests&, its
// arguments...), if some requests are ours; else passed on.
template <auto complete>
struct Completion;
template <class... Args, int (*complete)(Job&, OurRequests&, Args...)>
struct Completion<complete> {
  template <Call call>
  [[nodiscard]] static bool passes_at_once(WordFor<Args>... /*words*/) {
    const bool watched = message_shape(call).blocks ? !nothing_watched() : !no_request_watched();
    return nothing_outstanding() && !steer::measuring() && !watched;
  }
  template <Call call>
  static int run(const CallSite& site, WordFor<Args>... words) {
    if (steer::measuring()) [[unlikely]]
      return run_measured<call>(site, words...);
    return run_any<call>(site, words...);
  }

 private:
  template <Call call>
  [[gnu::noinline]] static int run_measured(const CallSite& site, WordFor<Args>... words) {
    const steer::InsideMpi inside;
    return run_any<call>(site, words...);
  }
  template <Call call>
  static int run_any(const CallSite& site, WordFor<Args>... words) {
    if (observing() || !nothing_watched()) [[unlikely]]
      return run_observed<call>(site, words...);
    return run_plainly<call>(site, words...);
  }
  template <Call call>
  [[gnu::noinline]] static int run_observed(const CallSite& site, WordFor<Args>... words) {
    const CompletionOrigin origin(site.caller);
    const PublishedMessage published(site, message_shape(call), words...);
    const CompletionWindow window(site, call, words...);
    const TimedCompletion timed(site, call, words...);
    return run_plainly<call>(site, words...);
  }
  template <Call call>
  static int run_plainly(const CallSite& site, WordFor<Args>... words) {
    Job* job = job_to_complete();
    return job == nullptr ? site.pass(call, words...) : run_in<call>(*job, site, argument<Args>(words)...);
  }
  template <Call call>
  static int run_in(Job& job, const CallSite& site, Args... args) {
    if (anything_freed() && !site.inside_mpi()) progress_freed(job);
    OurRequests ours(requests_of(args...));
    if (ours.empty()) return pass(call, args...);
    const Operation& first = *ours.entries().front().operation;
    if (const std::optional<int> refused = refusal_of_missing(first.comm->error_comm(), call, args...)) return *refused;
    return complete(job, ours, args...);
  }
};

// MPI_Wait for a request of ours.
int wait_for(Job& job, MPI_Request* request);

// Calls the communicator's error handler and returns the code.
int raise_error(const CommState& comm, int code);

}  // namespace outrigger::mpi
