// The completion family, when something of ours is outstanding. The native call collects requests; before it may block
// or claim success for one of ours, the operation has been brought to its end here.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "mpi/choice/lost_time.hpp"
#include "mpi/collectives/operation.hpp"
#include "mpi/completion/missing_arguments.hpp"
#include "mpi/completion/request_table.hpp"
#include "mpi/native/abi.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/report/native_requests.hpp"
#include "mpi/start/job.hpp"

namespace outrigger::mpi {

// Those requests of an array that are ours. No allocation up to a handful; nothing here is quadratic.
class OurRequests {
 public:
  explicit OurRequests(std::span<const MPI_Request> requests);

  struct Entry {
    std::size_t index = 0;  // in the array
    Operation* operation = nullptr;
    bool persistent = false;
    bool inactive = false;  // ... and not started; counts as done
    bool done = false;
    int error = MPI_SUCCESS;    // of the operation, once done
    CommState* comm = nullptr;  // with a reference, when there is an error
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
  // A request to drive the native MPI with, while one of ours is not done.
  [[nodiscard]] MPI_Request unfinished() const;

  // Those of persistent collectives, which the native MPI must not see.
  [[nodiscard]] bool any_persistent() const { return persistent_ != 0; }
  // One that is not done. Nothing that collects all may be asked of the native MPI.
  [[nodiscard]] bool persistent_left() const;
  // The next in the array from `index` on that was active and is done; nullptr: there is none.
  [[nodiscard]] const Entry* done_persistent(std::size_t index) const;
  // What the call gives to the program. All: where there are any.
  static void collect(const Entry& entry) {
    if (!entry.inactive) collect_run(*entry.operation);
  }
  void collect_persistent() const;

  // After the native call has collected requests: raises errors of ours and gives the code to return.
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

  std::array<Entry, kInline> few_{};
  std::vector<Entry> many_;
  std::size_t size_ = 0;
  std::size_t persistent_ = 0;  // of them
  bool failed_ = false;         // one of them has an error
};

// The requests of an array as the native MPI may see them: nothing where persistent ones of ours are. What becomes of
// the others is in the array afterwards.
class NativeRequests {
 public:
  NativeRequests(const OurRequests& ours, MPI_Request* requests, int count);
  NativeRequests(const NativeRequests&) = delete;
  NativeRequests& operator=(const NativeRequests&) = delete;
  ~NativeRequests();
  [[nodiscard]] MPI_Request* data() { return copy_.empty() ? requests_ : copy_.data(); }

 private:
  const OurRequests& ours_;
  MPI_Request* requests_;
  std::vector<MPI_Request> copy_;  // where there are some to be left out
};

// That of a request which is not active.
void set_empty(MPI_Status* status);
[[nodiscard]] inline MPI_Status* status_at(MPI_Status* statuses, std::size_t index) {
  return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : statuses + index;
}
// Of Testany: the native MPI has none that is active.
[[nodiscard]] inline bool has_none(int code, int flag, const int* index) {
  return code == MPI_SUCCESS && flag != 0 && index != nullptr && *index == MPI_UNDEFINED;
}
// One persistent request that is done: the code.
[[nodiscard]] int collect_one(const OurRequests& ours, MPI_Status* status);
// The first of them that is done, where the native MPI has found none of its own. Nothing: none is; else the code.
[[nodiscard]] std::optional<int> collect_any(const OurRequests& ours, int* index, MPI_Status* status);
// All that are done, behind those that the native MPI has collected, which may have said that it has none.
void collect_some(const OurRequests& ours, int* collected, int* indices, MPI_Status* statuses);

// The requests of a call; none where its arguments are for the native MPI to reject.
[[nodiscard]] inline std::span<const MPI_Request> span_of(const MPI_Request* requests, int count) {
  if (requests == nullptr || count <= 0) return {};
  return {requests, static_cast<std::size_t>(count)};
}

// The job, if there is anything of ours to complete in a call from here; null: it is the native MPI's alone.
[[nodiscard]] inline Job* job_to_complete(const CallSite& site) {
  Job* job = nothing_outstanding() ? nullptr : current_job();
  return job == nullptr || site.inside_mpi() ? nullptr : job;
}

// Whether a call that returned `code` has said yes. Where it refuses an argument it has written nothing.
[[nodiscard]] inline bool says_yes(int code, const int* flag) {
  return code == MPI_SUCCESS && flag != nullptr && *flag != 0;
}
[[nodiscard]] bool is_in_status(int code);
[[nodiscard]] inline int index_if(bool found, const int* index) {
  return found && index != nullptr ? *index : -1;
}

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
    return nothing_outstanding() && !measuring() && nothing_watched();
  }
  template <Call call>
  static int run(const CallSite& site, WordFor<Args>... words) {
    if (measuring()) [[unlikely]]
      return run_measured<call>(site, words...);
    return run_any<call>(site, words...);
  }

 private:
  template <Call call>
  [[gnu::noinline]] static int run_measured(const CallSite& site, WordFor<Args>... words) {
    const InsideMpi inside;
    return run_any<call>(site, words...);
  }
  template <Call call>
  static int run_any(const CallSite& site, WordFor<Args>... words) {
    const TimedCompletion timed(site, call, words...);
    Job* job = job_to_complete(site);
    return job == nullptr ? site.pass(call, words...) : run_in<call>(*job, argument<Args>(words)...);
  }
  template <Call call>
  static int run_in(Job& job, Args... args) {
    progress_freed(job);
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
