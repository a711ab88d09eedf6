// The report from the library's side: counting by the collectives' own code, and the times of writing (report/json.hpp
// describes its contents). Does nothing unless the user asked for a report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "client/operations/operation_request.hpp"
#include "mpi/native/abi.hpp"
#include "mpi/report/counting.hpp"
#include "mpi/trace/traced_requests.hpp"
#include "protocol/collective.hpp"

namespace outrigger::mpi {

struct Job;
struct Operation;
class CommState;

using report::NativeReason;

// During its life MPI_Start posts the operation.
class OffloadedStart {
 public:
  explicit OffloadedStart(Operation& operation);
  OffloadedStart(const OffloadedStart&) = delete;
  OffloadedStart& operator=(const OffloadedStart&) = delete;
  ~OffloadedStart() {
    if (traced_) trace_offloaded_start(*traced_);
    if (operation_ != nullptr) end();
  }

 private:
  void end();

  std::optional<TracedStart> traced_;
  Operation* operation_ = nullptr;  // nullptr: not counted
  std::uint64_t bytes_ = 0;
  std::int64_t began_ns_ = 0;
};

// For this thread's current collective.
void count_native(NativeReason reason);
void count_post(Operation& operation);
// The ranks do it; before it is launched. Its time in completion calls belongs to its call's row, too.
void count_posted_by_ranks(Operation& operation);
// From now on the program does something else: the call that has started it is over.
void count_start_ended(Operation& operation, std::int64_t now_ns);
// So much of MPI_Start went to a yield after the post.
void count_yield(Operation& operation, std::int64_t spent_ns, std::int64_t now_ns);
// In a call of the program that waits for it, other than a blocking form.
void count_wait(Operation& operation);
void count_completion(const Operation& operation, const client::OperationResult& result);

// Measures one call of the program into the library for an offloaded operation: wall time for the communicator's row,
// CPU time for the rank's. A starting call that stays native reads no clock: the CPU clock is a system call, which
// takes longer than many collectives.
class CallTimer {
 public:
  enum class Kind : std::uint8_t { post, start, completion, test };
  explicit CallTimer(Kind kind) : kind_(kind) {
    if (kind != Kind::post && counting()) begin();
  }
  CallTimer(const CallTimer&) = delete;
  CallTimer& operator=(const CallTimer&) = delete;
  // Assigns the time to the operation. Without this, it is only the rank's; a post's time belongs to its call, and
  // begins here.
  void belongs_to(const Operation& operation) {
    if (counting()) assign(operation);
  }
  ~CallTimer() {
    if (on_) end();
  }

 private:
  void begin();
  void assign(const Operation& operation);
  void end();

  bool on_ = false;
  Kind kind_;
  report::LedgerRow* row_ = nullptr;
  std::int64_t wall_ns_ = 0;
  std::int64_t cpu_ns_ = 0;
};

// In MPI_Init of an offloaded job with a report or live counters. From now on calls are counted and the keeper knows
// it; world rank 0 has written what is known so far if there is to be a report.
void start_report(Job& job);
// In MPI_Finalize. With a report collective over the world: sums up and writes on world rank 0.
void end_report(const Job& job);

// The same for a native job. `comm`: a duplicate of the world for the library, if all ranks have the library; else
// MPI_COMM_NULL, and only the rank with `writes` reports, about itself.
struct NativeJob {
  std::uint32_t world_rank = 0;
  std::uint32_t world_size = 0;
  std::string path;  // of the report
  std::string because;
  MPI_Comm comm{};
  bool writes = false;
};
void start_native_report(const NativeJob& job);
void end_native_report();

// The library, or the program by MPI_Abort, ends the job now: records the reason, and in a native job writes the
// report. Never waits for other processes.
void note_abort(std::int32_t code, const std::string& why);

}  // namespace outrigger::mpi
