// A report as JSON, for `outrigger report` and other programs.
//
//   {
//     "version": 1, "mpi": "MPICH", "ranks": 4, "nodes": 2,
//     "ended": {                    // how the job ended
//       "how": "finalized",         // or "aborted" (MPI_Abort), "signal", "exited" (without MPI_Finalize), "lost"
//       (gone,
//                                   // nothing more is known), "ended" (by the library), "running" (not yet, or nobody
//                                   // was left to say)
//       "code": null,               // of MPI_Abort, or the exit status
//       "signal": null,
//       "rank": null,               // of MPI_COMM_WORLD, whose end it was
//       "text": ""},                // for people
//     "counted_ranks": [[0, 3]],    // the ranks whose counts are in this, from and to; all of them after MPI_Finalize
//     "native_because": "",         // why the whole job ran natively; empty: it did not
//     "run_seconds": spread,        // from MPI_Init to the end, per rank
//     "wire": [                     // how data went between nodes, as UCX reported it; none: nothing did
//       {"kind": "rdma",            // the network moves memory to memory; or "messages", which processors copy
//        "transports": "rc_verbs/mlx5_0:1", "nodes": 2}],   // as many nodes used it
//     "shared_heap": {              // of all ranks together; only with OUTRIGGER_SHARED_HEAP=on
//       "allocations": n, "bytes": n,
//       "refused": n,               // large allocations that became ordinary memory
//       "forks": n},                // each made what was allocated before ordinary memory
//     "copied_while_waiting": n,    // bytes of `copier` that ranks copied themselves while they waited, all together
//     "in_huge_pages": n,           // bytes of buffers that were moved there, of all ranks together
//     "service": {"processes": 1, "core": 1, "core_is_free": true, "cross_memory_attach": true, "xpmem": false},
//     "services": [                 // every service process
//       {"node": 0, "number": 0, "core": 1, "core_is_free": true,
//        "core_taken": 0.63,        // the part of its time for which others had its core; null: not measured
//        "other_job": null,         // a process of another job that has had the core, too; -1: not known which
//        "restarts": 0,             // how often it was killed, and another one took its place
//        "warning": ""}],           // why nothing has been offloaded any more; empty: it has
//     "calls": [                    // every collective that the program called: one per (call, communicator)
//       {"call": "MPI_Alltoallv", "form": "blocking",       // or "nonblocking", "persistent"
//        "collective": "ialltoallv",                         // what can be offloaded of it; null: nothing
//        "communicator": "MPI_COMM_WORLD", "group": "<32 hex digits>", "size": 4,
//        "calls": 40,               // of all ranks together
//        "offloaded": 40, "native": {"<reason>": calls, ...},
//        "by_ranks": 0,             // done by the ranks of a node among themselves
//        "bytes": {                 // what a rank hands over in a call, or gets where it hands over nothing
//          "calls": 40, "sum": n, "min": n, "max": n},       // of as many calls, whose arguments were valid
//        "seconds": spread,         // in the call and, of nonblocking ones, in completion calls, per rank
//        "tests": {"calls": 0, "seconds": s},       // of nonblocking ones: calls that tested, of all ranks
//        "before_wait": {"operations": 40, "seconds": s}}],  // from their starts to the calls that waited for them
//     "collectives": [              // what could have been offloaded: one per (collective, communicator)
//       {"collective": "ialltoall", "communicator": "MPI_COMM_WORLD", "group": "<32 hex digits>", "size": 4,
//        "calls": 40,               // of all ranks together; blocking forms where they are asked for
//        "offloaded": 40,
//        "algorithms": {"<name>": calls, ...},   // of those offloaded
//        "native": {"<reason>": calls, ...},
//        // received; bounce: packed and unpacked
//        "bytes": {"mapped": n, "cma": n, "relay": n, "wire": n, "copier": n, "xpmem": n, "own": n, "bounce": n},
//        "late_announcements": n,   // peers that were ready before this rank posted
//        "post_seconds": spread,          // inside the starting calls, per rank
//        "completion_seconds": spread}],  // inside Wait, Test, ...
//     "phases": [                   // of the program, by the names that it has given them; inner ones count for
//     themselves
//       {"phase": "solve", "entered": 40, "calls": 80, "offloaded": 80, "bytes": n,   // of all ranks together
//        "seconds": spread,               // in it, of each rank that was
//        "collective_seconds": spread}],  // of these in collectives and in what waits for them
//     "rank_cpu_seconds": {"offloaded_calls": spread, "process": spread}
//   }
//
// A spread is {"sum": s, "min": s, "max": s, "min_rank": r, "max_rank": r, "ranks": n}: figures of n ranks, which of
// them has the least and which the most.
#pragma once

#include <string>

#include "report/summary.hpp"

namespace outrigger::report {

[[nodiscard]] std::string as_json(const Summary& summary);

}  // namespace outrigger::report
