// A report as JSON, for `outrigger report` and other programs.
//
//   {
//     "version": 1, "mpi": "MPICH", "ranks": 4, "nodes": 2,
//     "program": "lmp",             // of world rank 0: an executable, or an interpreter's script
//     "ended": {                    // how the job ended
//       "how": "finalized",         // or "aborted" (MPI_Abort), "signal", "exited" (without MPI_Finalize),
//                                   // "lost" (without a known reason), "ended" (by the library), "running"
//       "code": null,               // of MPI_Abort, or the exit status
//       "signal": null,
//       "rank": null,               // in MPI_COMM_WORLD, that ended this way
//       "text": ""},                // for people
//     "counted_ranks": [[0, 3]],    // ranges of ranks whose counts are included; after MPI_Finalize all
//     "native_because": "",         // why the whole job ran natively; empty: it was offloaded
//     "run_seconds": spread,        // from MPI_Init to the end, per rank
//     "outside_seconds": spread,    // part of these outside collectives and completion calls
//     "wire": [                     // routes between nodes, as UCX reported them
//       {"kind": "rdma",            // or "messages", if processors copy
//        "transports": "rc_verbs/mlx5_0:1", "nodes": 2}],   // number of nodes that used it
//     "shared_heap": {              // all ranks; only with OUTRIGGER_SHARED_HEAP=on
//       "allocations": n, "bytes": n,
//       "refused": n,               // large allocations that became ordinary memory
//       "forks": n},                // each turned earlier allocations into ordinary memory
//     "copied_while_waiting": n,    // bytes of `copier` that waiting ranks copied, all ranks
//     "copied_on_spare_cores": n,   // likewise, that copiers beside a DPU copied
//     "in_huge_pages": n,           // bytes of buffers that were moved there, all ranks
//     "waits": {                    // inside the MPI
//       "kind": "polite",           // or "own setting" of the MPI, "native"
//       "setting": "",              // of the MPI, that makes it yield: "VARIABLE=value"
//       "naps": n,                  // all ranks; these figures only for "polite"
//       "slept_seconds": spread, "yielded_seconds": spread,
//       "seconds": spread},         // in waits that have slept or yielded, per rank
//     "service": {"processes": 1, "core": 1, "core_is_free": true, "cross_memory_attach": true, "xpmem": false},
//     "services": [                 // every service process
//       {"node": 0, "number": 0, "core": 1, "core_is_free": true,
//        "core_taken": 0.63,        // share of its time in which others had its core; null: not measured
//        "other_job": null,         // a process of another job that also used the core; -1: unknown
//        "restarts": 0,             // how often it was replaced
//        "warning": ""}],           // why offloading stopped; empty: it did not
//     "calls": [                    // every collective that the program called: one per (call, communicator)
//       {"call": "MPI_Alltoallv", "form": "blocking",       // or "nonblocking", "persistent"
//        "collective": "ialltoallv",                         // its offloaded form; null: it has none
//        "communicator": "MPI_COMM_WORLD", "group": "<32 hex digits>", "size": 4,
//        "calls": 40,               // all ranks
//        "offloaded": 40, "native": {"<reason>": calls, ...},
//        "by_ranks": 0,             // done by the ranks of a node among themselves
//        "saved_seconds": s,        // ... and so much faster than by the MPI, as trials have measured; all ranks
//        "bytes": {                 // that a rank sends in a call, or receives if it sends nothing
//          "calls": 40, "sum": n, "min": n, "max": n},       // calls: those with valid arguments
//        "seconds": spread,         // in the call and, if nonblocking, in completion calls, per rank
//        "tests": {"calls": 0, "seconds": s},       // testing calls for nonblocking ones, all ranks
//        "before_wait": {"operations": 40, "seconds": s}}],  // from start to waiting call
//     "collectives": [              // calls that could be offloaded: one per (collective, communicator)
//       {"collective": "ialltoall", "communicator": "MPI_COMM_WORLD", "group": "<32 hex digits>", "size": 4,
//        "calls": 40,               // all ranks; blocking forms if their offloading is switched on
//        "offloaded": 40,
//        "algorithms": {"<name>": calls, ...},   // of offloaded calls
//        "native": {"<reason>": calls, ...},
//        // received; bounce: packed and unpacked
//        "bytes": {"mapped": n, "cma": n, "relay": n, "wire": n, "copier": n, "xpmem": n, "own": n, "bounce": n},
//        "late_announcements": n,   // peers that were ready before this rank posted
//        "post_seconds": spread,          // inside the starting calls, per rank
//        "completion_seconds": spread,    // inside Wait, Test, ...
//        "late_seconds": spread}],        // posted this long after the first rank of the group
//     "phases": [                   // named by the program; inner ones are counted separately
//       {"phase": "solve", "entered": 40, "calls": 80, "offloaded": 80, "bytes": n,   // all ranks
//        "seconds": spread,               // in the phase, per rank that entered it
//        "collective_seconds": spread,    // part of these in collectives and completion calls
//        "outside_seconds": spread,       // the rest of them
//        "meetings": spread,              // number of blocking calls in which all ranks of the job meet
//        "meeting_seconds": spread,       // ... in these
//        "other_seconds": spread}],       // in other collectives and in completion calls
//     "rank_cpu_seconds": {"offloaded_calls": spread, "process": spread}
//   }
//
// A spread is {"sum": s, "min": s, "max": s, "min_rank": r, "max_rank": r, "ranks": n}: figures of n ranks, and
// which of them has the smallest and the largest.
#pragma once

#include <string>

#include "report/summary.hpp"

namespace outrigger::report {

[[nodiscard]] std::string as_json(const Summary& summary);

}  // namespace outrigger::report
