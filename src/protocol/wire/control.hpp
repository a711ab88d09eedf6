// Control messages over Unix SOCK_SEQPACKET sockets: rank <-> keeper and keeper <-> service process. They are for setup
// and teardown; operations do not use them.
//
//   rank                         keeper                                 service process (child of the keeper)
//    | hello {secret, rank, affinity, probe}                              |
//    |--------------------------->| (all ranks of the node have come)     |
//    |                            | configure {sp, cpu, ...} ------------>|   socket inherited as a descriptor
//    |                            | heartbeat + fd ---------------------->|   memory for its heartbeat
//    |                            | peer_ring {sp} + 3 fds -------------->|   one per other service process
//    |                            | rank_joined + segment fd ------------>|   to all of them, for every rank
//    |                            |<---------- rank_attached {reach bits} |
//    |<-- welcome {sp, reach bits} + segment fd, doorbell fd              |
//    |                            | introduced -------------------------->|   all peers and ranks have been named
//    | region_add {id, base, bytes} + fd ------ region_add -------------->|   sealed memfd
//    |<-- region_added {id, ok} --------------- region_added {id, ok}     |   answered when all have mapped it
//    | region_drop {id} --------->| region_drop ------------------------->|
//    | counts + fd -------------->|                                       |   for the rank's counters, if there is
//    |                            |                                       |   to be a report
//    | trace + fd --------------->| trace + fd -------------------------->|   likewise; the rank's service process
//    |                            |                                       |   writes there, too
//    | trace_settle ------------->|                                       |   a DPU's events must come to the rank's
//    |                            |                                       |   memory (Header::settled)
//    |                            | core_share {share, other job} ------->|   another job uses its core, or stops
//    |                            | degraded ---------------------------->|   degraded mode: too many have died
//    |                            | take_place -------------------------->|   of a dead one; its ranks follow
//    | goodbye ------------------>| rank_left {rank, sp} --------------->|   kept for replacements
//    |                            | goodbye ----------------------------->|   the end of the job
//
// In a job of several nodes, before and after the welcome; the node leader (local rank 0) acts for its node:
//
//    |                            |<------------------- wire_address + fd |   after configure
//    |<-- node_descriptor + fd ---|                                       |   ranks and service processes here
//    | job_map + fd ------------->| job_map + fd ------------------------>|   all nodes' descriptors
//    |<-- job_map_taken {ok} ------------------ job_map_taken {ok}        |   answered when all have it
//
// When a service process of another node has been replaced, or does not answer:
//
//    |                            | peer_moved {sp, epoch} + fd --------->|   the replacement's address
//    |                            |<-------------------- peer_silent {sp} |   asks if its node is reached
//    |                            | peer_watched {sp, epoch} ------------>|   its keeper has answered
//
// If the node's service processes run on a DPU, the keeper forwards their messages over the connection of dpu_link.hpp.
// Nothing is mapped there, so before the welcome:
//
//    | rank                       | keeper                                | service process on the DPU
//    |<-- segment_offer + fd -----|                                       |
//    | rank_address + fd -------->| rank_remote + fd -------------------->|   for reaching the rank's segment
//    |   (drives its network)     |<------------------- rank_wired {ok} --|   connected
//    |<-- be_quiet ---------------|   when all are                        |
//    |   (sets rank_quiet)        |<-------- rank_attached {reach bits} --|   access without the rank's help
//
// A standby process there connects in the same way. When a service process dies:
//
//    |                            | take_place {sp, epoch} -------------->|   then like a restarted one
//
// If none can take its place there, or the DPU is lost, service processes of the host take all places:
//
//    |<-- leave_dpu + segment fd, doorbell fd                             |   SegmentHeader::dpu_calls tells it, too
//    | (closes its network) region_add + fd, for its memory outside of the segment
//    | left_dpu ----------------->| as for restarted ones --------------->|   on the host, once all ranks have left
//
// One message is one packet: a fixed struct, and descriptors as SCM_RIGHTS. The receiver of a packet with a wrong size,
// kind, version, number of descriptors or field value closes the connection.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "copy/core_share.hpp"
#include "protocol/ids.hpp"
#include "protocol/limits.hpp"
#include "protocol/wire/message_io.hpp"

namespace outrigger {

inline constexpr std::uint32_t kControlMagic = 0x4F555452;  // "OUTR"
inline constexpr std::size_t kMaxControlFds = 3;
inline constexpr std::size_t kSecretBytes = 16;
inline constexpr std::size_t kReasonBytes = 256;
inline constexpr std::size_t kTransportsBytes = 128;  // longer lists are not sent to DPUs

using Secret = std::array<std::uint8_t, kSecretBytes>;

enum class ControlKind : std::uint32_t {
  hello = 1,
  welcome = 2,
  refused = 3,
  region_add = 4,
  region_added = 5,
  region_drop = 6,
  goodbye = 7,
  configure = 8,
  peer_ring = 9,
  rank_joined = 10,
  rank_attached = 11,
  rank_left = 12,
  fault_report = 13,
  wire_address = 14,
  node_descriptor = 15,
  job_map = 16,
  job_map_taken = 17,
  segment_offer = 18,
  rank_address = 19,
  rank_remote = 20,
  rank_wired = 21,
  be_quiet = 22,
  doorbell = 23,
  counts = 24,
  core_share = 25,
  introduced = 26,
  heartbeat = 27,
  degraded = 28,
  peer_moved = 29,
  peer_silent = 30,
  peer_watched = 31,
  take_place = 32,
  leave_dpu = 33,
  left_dpu = 34,
  trace = 35,
  trace_settle = 36,
};

// Access of the node's service processes to a rank's memory.
inline constexpr std::uint32_t kReachMapped = 1U << 0;
inline constexpr std::uint32_t kReachCma = 1U << 1;
// Ranks may start a copier (copy/copy_queue.hpp) on their service process's core; only together with kReachCma.
inline constexpr std::uint32_t kReachCopier = 1U << 2;
// Private memory is attached by XPMEM (xpmem.hpp); only together with kReachCma, which detects missing pages.
inline constexpr std::uint32_t kReachXpmem = 1U << 3;
// The service processes run on a DPU and reach registered memory by RDMA; excludes all bits but the next.
inline constexpr std::uint32_t kReachRdma = 1U << 4;
// The network card moves registered memory directly, by exported handles; only together with kReachRdma.
inline constexpr std::uint32_t kReachAlias = 1U << 5;

// Routes that a user may select (OUTRIGGER_REACH). Bounce is always allowed, as the last resort.
inline constexpr std::uint32_t kReachAll =
    kReachMapped | kReachCma | kReachCopier | kReachXpmem | kReachRdma | kReachAlias;

struct HelloBody {
  Secret secret{};
  std::uint32_t world_rank = 0;
  std::uint32_t world_size = 0;
  std::uint32_t local_rank = 0;
  std::uint32_t local_size = 0;
  std::uint64_t probe_address = 0;  // a 64-bit word in the rank's private memory ...
  std::uint64_t probe_value = 0;    // ... and its value; the service process reads it, adds 1 and writes it back
  std::int64_t xpmem_segment = -1;  // covers all of the rank's memory; -1: none
  std::array<std::uint64_t, kMaxCpus / 64> affinity{};
};

struct WelcomeBody {
  std::uint32_t sp = 0;
  std::uint32_t sp_count = 0;
  std::uint32_t reach = 0;                             // kReach* bits of all service processes of the node
  std::int32_t cpu = -1;                               // the service process's core; -1: not pinned
  copy::CoreShare core_share = copy::CoreShare::none;  // of that core
  // A process of another job on its core at the start. -1: unknown; 0: none.
  std::int32_t other_job = 0;
};

struct RefusedBody {
  std::array<char, kReasonBytes> reason{};
};

struct RegionBody {
  std::uint32_t world_rank = 0;  // filled in by the keeper; ignored from a rank
  std::uint32_t region = 0;
  std::uint64_t base = 0;  // in the rank's address space, page-aligned
  std::uint64_t bytes = 0;
};

struct RegionAddedBody {
  std::uint32_t world_rank = 0;
  std::uint32_t region = 0;
  std::uint32_t ok = 0;
  std::uint32_t reserved = 0;
};

struct ConfigureBody {
  std::uint32_t sp = 0;
  std::uint32_t sp_count = 0;
  std::uint32_t world_size = 0;
  std::uint32_t local_size = 0;
  std::int32_t cpu = -1;
  copy::CoreShare core_share = copy::CoreShare::none;
  std::uint32_t reach_allowed = kReachAll;
  std::uint32_t epoch = 1;            // 0: a standby process, which replaces one that dies
  std::uint32_t nodes = 1;            // of the job
  std::uint32_t elsewhere = 0;        // 1: this process runs on a DPU, its ranks on the host
  std::uint64_t cache_bytes = 0;      // of the node's largest last-level cache; 0: unknown
  std::uint32_t attach_limit_ms = 0;  // on a DPU: from connecting to a rank until its memory is reached
  std::uint32_t process = 0;          // on a DPU: number in the order of start for this host
  std::uint32_t instead_of_dpu = 0;   // 1: replaces a process on a DPU; other nodes' processes may be on DPUs
  std::uint32_t traced = 0;           // 1: tracing is on
  Secret dpu_secret{};                // of the job's DPUs, never sent over a network; zeros: none
  std::array<char, kTransportsBytes> transports{};  // for UCX; a process's own setting wins
};

// To a standby process on a DPU: it is service process `sp` from now on.
struct TakePlaceBody {
  std::uint32_t sp = 0;
  std::uint32_t epoch = 0;
  std::int32_t cpu = -1;  // filled in on the DPU
  std::uint32_t reserved = 0;
};

// New state of a service process's core.
struct CoreShareBody {
  copy::CoreShare core_share = copy::CoreShare::own;  // or shared
  std::int32_t other_job = 0;                         // see WelcomeBody
};

// Three descriptors: the ring that this process writes, the ring that it reads, and the peer's doorbell.
struct PeerRingBody {
  std::uint32_t sp = 0;
  std::uint32_t epoch = 0;  // the peer's
};

// Two descriptors: the rank's segment and its doorbell (a duplicate of the segment unless the receiver serves the
// rank).
struct RankJoinedBody {
  std::uint32_t world_rank = 0;
  std::uint32_t sp = 0;     // the service process that serves it
  std::int32_t pid = 0;     // from the kernel
  std::uint32_t reach = 0;  // as in the rank's welcome; 0: it has had none
  std::uint64_t probe_address = 0;
  std::uint64_t probe_value = 0;
  std::int64_t xpmem_segment = -1;
};

struct RankAttachedBody {
  std::uint32_t world_rank = 0;
  std::uint32_t reach = 0;
};

// To a replacement service process: all peers, ranks and regions have been named.
struct IntroducedBody {
  std::uint32_t running = 0;  // 1: ranks have had their welcome
  std::uint32_t reserved = 0;
};

struct RankBody {
  std::uint32_t world_rank = 0;
  std::uint32_t reserved = 0;
};

// May come twice, and before a replacement's `introduced`.
struct RankLeftBody {
  std::uint32_t world_rank = 0;
  std::uint32_t sp = 0;  // the service process that served it
};

// One descriptor: sealed memory with the bytes (an address on the wire, a node descriptor, a job map).
struct SharedBytesBody {
  std::uint64_t bytes = 0;
  std::uint32_t node = 0;  // job map: index of the receiver's node
  std::uint32_t reserved = 0;
};

// A service process of another node, by its number in the job. One descriptor: its address on the wire.
struct PeerMovedBody {
  std::uint32_t sp = 0;
  std::uint32_t epoch = 0;
  std::uint64_t bytes = 0;
};

struct PeerBody {
  std::uint32_t sp = 0;
  std::uint32_t epoch = 0;  // of peer_watched: its present epoch; 0: a replacement is about to start
};

// One descriptor: an encoded RankAddress (rank_address.hpp).
struct RankRemoteBody {
  std::uint32_t world_rank = 0;
  std::uint32_t sp = 0;
  std::uint64_t bytes = 0;
};

struct RankWiredBody {
  std::uint32_t world_rank = 0;
  std::uint32_t ok = 0;
  std::array<char, kReasonBytes> reason{};
};

struct JobMapTakenBody {
  std::uint32_t ok = 0;
  std::array<char, kReasonBytes> reason{};
};

// Fault report: a service process rejects this rank; the reason is for people.
struct FaultReportBody {
  std::uint32_t world_rank = 0;
  std::array<char, kReasonBytes> reason{};
};

struct ControlHeader {
  std::uint32_t magic = kControlMagic;
  std::uint32_t version = 0;
  std::uint32_t kind = 0;
  std::uint32_t body_bytes = 0;
};

// A decoded packet: its kind, the raw body (of the size of the kind's struct) and its descriptors.
class ControlMessage {
 public:
  [[nodiscard]] ControlKind kind() const { return kind_; }
  // T must be the struct of kind(); checked.
  template <class T>
  [[nodiscard]] T body() const;
  [[nodiscard]] std::span<const std::byte> raw_body() const { return body_; }
  [[nodiscard]] std::vector<UniqueFd>& fds() { return fds_; }

 private:
  friend Result<ControlMessage> decode_control(std::span<const std::byte> packet, std::vector<UniqueFd> fds);
  ControlKind kind_ = ControlKind::goodbye;
  std::vector<std::byte> body_;
  std::vector<UniqueFd> fds_;
};

// Checks magic, version, kind, sizes and the number of descriptors. Never reads outside `packet`.
[[nodiscard]] Result<ControlMessage> decode_control(std::span<const std::byte> packet, std::vector<UniqueFd> fds);

// Encodes a message of `kind` with `body`, the bytes of one of the structs above.
[[nodiscard]] std::vector<std::byte> encode_control(ControlKind kind, std::span<const std::byte> body);

template <FixedLayout T>
[[nodiscard]] std::vector<std::byte> encode_control(ControlKind kind, const T& body) {
  return encode_control(kind, encoded(body));
}

// One end of a connected SOCK_SEQPACKET socket. Not thread-safe. Sends and receives whole messages; never raises
// SIGPIPE; received descriptors are close-on-exec.
class ControlSocket {
 public:
  // no_descriptors: this process had no room for a message's descriptors, which are lost.
  enum class Event { message, nothing, closed, malformed, no_descriptors };
  struct Received {
    Event event = Event::nothing;
    std::optional<ControlMessage> message;
    std::string problem;  // for malformed and no_descriptors
  };

  ControlSocket() = default;
  explicit ControlSocket(UniqueFd fd) : fd_(std::move(fd)) {}

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] bool open() const { return fd_.valid(); }
  void close() { fd_.reset(); }

  // False: the peer is gone, or the socket was full for `timeout_ms`.
  [[nodiscard]] bool send_packet(std::span<const std::byte> packet, std::span<const int> fds, int timeout_ms = 2000);
  template <class T>
  [[nodiscard]] bool send(ControlKind kind, const T& body, std::span<const int> fds = {}) {
    return send_packet(encode_control(kind, body), fds);
  }

  // Waits up to `timeout_ms` (0: not at all) for one message.
  [[nodiscard]] Received receive(int timeout_ms);

 private:
  UniqueFd fd_;
};

template <class T>
T ControlMessage::body() const {
  const std::optional<T> value = decoded<T>(body_);
  if (!value) std::abort();  // wrong struct for this kind: a bug
  return *value;
}

}  // namespace outrigger
