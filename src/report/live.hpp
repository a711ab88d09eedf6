// Live figures of a node, for tools that watch a running job: one frame,
//
//   magic "ORLV" | version | bytes of the rest | the rest, in MessagePack     (numbers of 32 bits, little-endian)
//
//   {"job": word, "host": name, "keeper": pid, "uid": n, "node": n, "nodes": n, "world": ranks, "mpi": name,
//    "at_ns": n,                 // CLOCK_MONOTONIC of the machine when the frame was made
//    "reaches": [name], "reasons": [name],            // rows have indices into these
//    "calls": [[name, form, collective or nil]],      // likewise
//    "communicators": [[id, name, size, first, stride]],   // likewise; size 0: several. The world ranks of its members
//                                                     // are first, first + stride, ...; stride 0: not known
//    "ranks": [[world rank, pid, service, gone, seconds since MPI_Init, CPU seconds in offloaded calls,
//               seconds asleep in polite waits, it has called MPI_Finalize]],
//    "places": [[object, offset, object, offset]],    // call sites and their callers; "": unknown
//    "present": [[index into ranks, into calls,       // a thread's last call
//                 into communicators, into places (-1: unknown),
//                 the thread is in it, it waits for such an operation, number of the call on this communicator,
//                 seconds since the thread has entered or left it]],
//    "messages": [[index into ranks,                  // a thread's last call that waits for a message or requests
//                  name, the thread is in it, it is also in "present", such calls of it so far,
//                  seconds since the thread has entered or left it, index into places (-1: unknown),
//                  communicator or nil, its size (0: unknown),
//                  to, its tag, from, its tag,        // world ranks, or less than 0: ledger.hpp
//                  requests]],                        // of a wait
//    "shows_messages": bool,                          // it has all such calls
//    "rows": [[index into ranks, into calls, into communicators,
//              calls, offloaded, bytes, least bytes, most bytes,     // of calls with known sizes
//              exposed_ns,       // in the calls and in completion calls
//              hidden_ns,        // offloaded: progress while the program did something else
//              late_ns, most_late_ns,                 // after the first rank of the group
//              late_peers,       // ready before this rank posted
//              [[reason, calls that stayed native]], [[reach, bytes received]]]],
//    "rows_left_out": n,         // beyond kMostLiveRows
//    "services": [[number, pid, cpu, core is free, ran_ns, waited_ns, restarts, other job, warning]],
//    "wire": [[kind, transports]],
//    "links": [[node, name, bytes sent, bytes received]],   // other nodes: the kMostLiveLinks largest
//    "all_links": [nodes, bytes sent, bytes received],      // of all links
//    "dpu": [name, bytes read, bytes written]}  // of its host's memory; ["", 0, 0] without a DPU
//
// `ran_ns` and `waited_ns` of a service are the kernel's: on its core, and runnable without it; 0 on a DPU.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "report/ledger.hpp"

namespace outrigger::report {

inline constexpr std::uint32_t kLiveMagic = 0x564C524FU;  // "ORLV"
inline constexpr std::uint32_t kLiveVersion = 1;
// Further rows are left out and counted, to keep a frame below a few MiB.
inline constexpr std::size_t kMostLiveRows = 16384;

// The nodes with the most traffic.
inline constexpr std::size_t kMostLiveLinks = 32;

struct LiveRank {
  std::span<const std::byte> ledger;  // from Ledger::bytes()
  pid_t pid = 0;
  bool gone = false;
};

struct LiveService {
  std::uint32_t number = 0;
  pid_t pid = 0;  // 0: on a DPU
  int cpu = -1;
  bool core_is_free = false;
  std::uint64_t ran_ns = 0;
  std::uint64_t waited_ns = 0;
  std::uint32_t restarts = 0;
  pid_t other_job = 0;
  std::string warning;
};

// Traffic of all service processes here, and on the DPU, with another node (protocol/shared/link_counts.hpp).
struct LiveLink {
  std::uint32_t node = 0;
  std::string name;
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_bytes = 0;
};

// The DPU whose service processes serve this node's ranks, or did before it was lost.
struct LiveDpu {
  std::string name;  // empty: no DPU
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
};

struct LiveNode {
  std::string job;
  std::string host;
  pid_t keeper = 0;
  uid_t uid = 0;
  std::int64_t at_ns = 0;
  std::vector<LiveRank> ranks;
  std::vector<LiveService> services;
  std::vector<WireRoute> wire;
  std::vector<LiveLink> links;  // each node once
  LiveDpu dpu;
};

// Malformed ledgers are left out; other content that a rank may write appears as numbers and text.
[[nodiscard]] std::vector<std::byte> live_frame(const LiveNode& node);

}  // namespace outrigger::report
