// The report from the library's side: what the collectives' own code counts, and when it is written
// (report/json.hpp says what is in it). Everything here does nothing unless the user asked for a report.
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

// While it lives, MPI_Start posts the operation.
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
  Operation* operation_ = nullptr;  // null: it is not counted
  std::uint64_t bytes_ = 0;
  std::int64_t began_ns_ = 0;
};

// Of the collective that this thread is in.
void count_native(NativeReason reason);
void count_post(Operation& operation);
// From now on the program does something else: the call that has started it is over.
void count_start_ended(Operation& operation, std::int64_t now_ns);
// So much of MPI_Start went to a yield after the post.
void count_yield(Operation& operation, std::int64_t spent_ns, std::int64_t now_ns);
// In a call of the program that waits for it, other than a blocking form.
void count_wait(Operation& operation);
void count_completion(const Operation& operation, const client::OperationResult& result);

// Measures one call of the program into the library for an offloaded operation: wall time to the communicator's row,
// CPU time to the rank's. A starting call that stays native reads no clock: that of CPU time takes a system call,
// longer than many collectives.
class CallTimer {
 public:
  enum class Kind : std::uint8_t { post, start, completion, test };
  explicit CallTimer(Kind kind);
  CallTimer(const CallTimer&) = delete;
  CallTimer& operator=(const CallTimer&) = delete;
  // Whose time it is. Without this, only the rank's; a post's is that of the call that it is in, and begins here.
  void belongs_to(const Operation& operation);
  ~CallTimer();

 private:
  void begin();

  bool on_ = false;
  Kind kind_;
  report::LedgerRow* row_ = nullptr;
  std::int64_t wall_ns_ = 0;
  std::int64_t cpu_ns_ = 0;
};

// In MPI_Init, in a job that is offloaded and has a report or live figures. From now on calls are counted, the keeper
// knows of it, and world rank 0 has written what is known so far, if there is to be a report.
void start_report(Job& job);
// In MPI_Finalize. With a report collective over the world: sums up and writes on world rank 0.
void end_report(const Job& job);

// The same of a job that runs natively. `comm`: a duplicate of the world for the library alone, where all ranks have
// the library; else MPI_COMM_NULL, and one rank, which `writes`, tells of itself alone.
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

// The library, or the program by MPI_Abort, ends the job now: what is known is noted, and in a native job written.
// Never waits for anybody.
void note_abort(std::int32_t code, const std::string& why);

}  // namespace outrigger::mpi
