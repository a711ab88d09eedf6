// The completion family, when something of ours is outstanding. The native MPI never sees requests of ours in these
// calls: it completes the others, and what is done of ours is collected one by one. So two threads that complete one
// request do not meet inside the MPI.
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
#include "mpi/report/native_requests.hpp"
#include "steer/rank/trial_clock.hpp"

namespace outrigger::mpi {

// Those requests of an array that are ours. No allocation up to a handful; nothing here is quadratic.
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
  [[nodiscard]] std::span<Entry> entries() { return {data(), size_}; }
  [[nodiscard]] std::span<const Entry> entries() const { return {data(), size_}; }
  // Looks at all that are not done. True: at least one is.
  bool progress_any(Job& job);
  // True: all are done.
  bool progress_all(Job& job);

  // The first in the array from `index` on that was active and is done; nullptr: there is none.
  [[nodiscard]] const Entry* first_done(std::size_t index) const;
  // Gives one that is done to the program: its request, in the program's array, and its status. Another thread may have
  // got it; then there is none.
  static void collect(const Entry& entry, MPI_Request* requests, MPI_Status* status);
  // The same in a call with several statuses, each of which has an error.
  static void collect_among(const Entry& entry, MPI_Request* requests, MPI_Status* status);

  // After requests have been collected: raises errors of ours and gives the code to return.
  // One request, `index` in the array.
  [[nodiscard]] int result_of_one(int code, int index) const;
  // Several: statuses[i] belongs to request i of the array if it was collected whole, else to request indices[i].
  [[nodiscard]] int result_of_many(int code, std::span<const int> indices, bool whole_array, int collected,
                                   MPI_Status* statuses) const;
  // The same of Waitsome and Testsome, by what they have written.
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
  bool failed_ = false;  // one of them has an error
};

// The requests of an array as the native MPI may see them. One of ours is null there if it is done; else, or always, it
// is one that never completes, so that the native MPI neither finds the array complete nor without an active request.
// The program's array gets what becomes of the others.
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

// That of a request which is not active.
void set_empty(MPI_Status* status);
[[nodiscard]] inline MPI_Status* status_at(MPI_Status* statuses, std::size_t index) {
  return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : statuses + index;
}
// The only request of a call, which is ours and done: the code.
[[nodiscard]] int collect_only(const OurRequests& ours, MPI_Request* request, MPI_Status* status);
// The first of ours that is done, where the native MPI has found none of its own. Nothing: none is; else the code.
[[nodiscard]] std::optional<int> collect_any(const OurRequests& ours, MPI_Request* requests, int* index,
                                             MPI_Status* status);
// All of ours that are done, behind those that the native MPI has collected, which may have said that it has none.
void collect_some(const OurRequests& ours, MPI_Request* requests, int* collected, int* indices, MPI_Status* statuses);

// All of ours that are done, where the native MPI has completed its own with `code`: the code. One of its own may have
// failed: then MPICH completes what is done and leaves the rest.
[[nodiscard]] int collect_all(const OurRequests& ours, int count, MPI_Request* requests, MPI_Status* statuses,
                              int code);

// The requests of a call; none where its arguments are for the native MPI to reject.
[[nodiscard]] inline std::span<const MPI_Request> span_of(const MPI_Request* requests, int count) {
  if (requests == nullptr || count <= 0) return {};
  return {requests, static_cast<std::size_t>(count)};
}

// The job, if there is anything of ours to complete; nullptr: all requests are the native MPI's. The caller does
// not matter: where a callback ends with the call, the return address lies in the MPI.
[[nodiscard]] inline Job* job_to_complete() {
  return nothing_outstanding() ? nullptr : current_job();
}

[[nodiscard]] bool is_in_status(int code);
// An output that the MPI has not written: it refuses an argument. Its code need not tell: native_twin.hpp.
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

// The entry points of the family (entry.hpp): `complete`, of type int(Job&, OurRequests&, its arguments...), where
// there are some of ours among the requests; else passed on.
template <auto complete>
struct Completion;
template <class... Args, int (*complete)(Job&, OurRequests&, Args...)>
struct Completion<complete> {
  template <Call call>
  [[nodiscard]] static bool passes_at_once(WordFor<Args>... /*words*/) {
    return nothing_outstanding() && !steer::measuring() && nothing_watched();
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
    const TimedCompletion timed(site, call, words...);
    Job* job = job_to_complete();
    return job == nullptr ? site.pass(call, words...) : run_in<call>(*job, site, argument<Args>(words)...);
  }
  template <Call call>
  static int run_in(Job& job, const CallSite& site, Args... args) {
    if (!site.inside_mpi()) progress_freed(job);
    OurRequests ours(requests_of(args...));
    if (ours.empty()) return pass(call, args...);
    const Operation& first = *ours.entries().front().operation;
    if (const std::optional<int> refused = refusal_of_missing(first.comm->error_comm(), call, args...)) return *refused;
    return complete(job, ours, args...);
  }
};

// As MPI_Wait, for a request of ours.
int wait_for(Job& job, MPI_Request* request);

// Tells the communicator's error handler and gives back the code.
int raise_error(const CommState& comm, int code);

}  // namespace outrigger::mpi
