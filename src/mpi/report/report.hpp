// What was offloaded, what was not and why: counted per communicator and collective, summed over the ranks at
// MPI_Finalize. Everything here does nothing unless the user asked for a report (OUTRIGGER_REPORT).
//
// The file is JSON:
//   {
//     "version": 1, "mpi": "MPICH", "ranks": 4, "nodes": 2,
//     "wire": [                     // how data went between nodes, as UCX reported it; none: nothing did
//       {"kind": "rdma",            // the network moves memory to memory; or "messages", which processors copy
//        "transports": "rc_verbs/mlx5_0:1", "nodes": 2}],   // as many nodes used it
//     "shared_heap": {             // of all ranks together; only with OUTRIGGER_REACH=heap
//       "allocations": n, "bytes": n,
//       "refused": n,               // large allocations that became ordinary memory
//       "forks": n},                // each made what was allocated before ordinary memory
//     "copied_while_waiting": n,    // bytes of `copier` that ranks copied themselves while they waited, all together
//     "in_huge_pages": n,           // bytes of buffers that were moved there, of all ranks together
//     "service": {"processes": 1, "core": 1, "core_is_free": true, "cross_memory_attach": true, "xpmem": false},
//     "collectives": [              // one per (collective, communicator)
//       {"collective": "ialltoall", "communicator": "MPI_COMM_WORLD", "group": "<32 hex digits>", "size": 4,
//        "calls": 40,               // of all ranks together
//        "offloaded": 40,
//        "algorithms": {"<name>": calls, ...},   // of those offloaded
//        "native": {"<reason>": calls, ...},
//        // received; bounce: packed and unpacked
//        "bytes": {"mapped": n, "cma": n, "relay": n, "wire": n, "copier": n, "xpmem": n, "own": n, "bounce": n},
//        "late_announcements": n,   // peers that were ready before this rank posted
//        "post_seconds": {"sum": s, "min": s, "max": s},          // inside the starting calls, per rank
//        "completion_seconds": {"sum": s, "min": s, "max": s}}],  // inside Wait, Test, ...
//     "rank_cpu_seconds": {"offloaded_calls": {"sum":, "min":, "max":}, "process": {"sum":, "min":, "max":}}
//   }
#pragma once

#include <cstdint>

#include "client/client.hpp"
#include "protocol/collective.hpp"
#include "protocol/ids.hpp"

namespace outrigger::mpi {

struct Job;
struct Operation;
class CommState;
struct CommRecord;

// Why a call was left to the native MPI.
enum class NativeReason : std::uint8_t {
  none,
  unknown_communicator,  // an intercommunicator, members outside MPI_COMM_WORLD, or made in a way not seen
  group_of_one,
  group_too_large,
  switched_off,  // info key outrigger=off
  selection_table,
  invalid_arguments,
  service_core_taken,  // by other processes, for a while
  small_blocks,        // of a v-form, so far
};
inline constexpr std::size_t kNativeReasons = 9;

// Switches counting on if the user asked for it.
void start_report(const Job& job);

// A communicator's figures; nullptr when nothing is counted.
[[nodiscard]] CommRecord* report_communicator(GroupId id, std::uint32_t size);

void count_native(const Job& job, Collective collective, const CommState* comm, NativeReason reason);
void count_post(const Operation& operation);
void count_completion(const Operation& operation, const client::OperationResult& result);

// Measures one call of the program into the library: wall time to the communicator's record, CPU time to the rank's.
class CallTimer {
 public:
  enum class Kind : std::uint8_t { post, completion };
  CallTimer(const Job& job, Kind kind);
  CallTimer(const CallTimer&) = delete;
  CallTimer& operator=(const CallTimer&) = delete;
  // Whose time it is. Without this, only the rank's.
  void belongs_to(const Operation& operation);
  ~CallTimer();

 private:
  bool on_;
  Kind kind_;
  Collective collective_ = Collective::ialltoall;
  CommRecord* record_ = nullptr;
  std::int64_t wall_ns_ = 0;
  std::int64_t cpu_ns_ = 0;
};

// Collective over the world: sums up and writes on world rank 0.
void write_report(const Job& job);

}  // namespace outrigger::mpi
