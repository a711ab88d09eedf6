// Control messages over Unix SOCK_SEQPACKET sockets: rank <-> keeper and keeper <-> service process. They set things up
// and tear them down; nothing of an operation passes here.
//
//   rank                        keeper                              service process (child of the keeper)
//    | hello {secret, rank, affinity, probe}                              |
//    |--------------------------->| (all ranks of the node are here)      |
//    |                            | configure {sp, cpu, ...}  ----------->|   socket inherited as a descriptor
//    |                            | pulse + fd  ------------------------->|   where it shows that it gets on
//    |                            | peer_ring {sp} + 3 fds     ---------->|   one per other service process
//    |                            | rank_joined + segment fd  ----------->|   every service process, every rank
//    |                            |<----------- rank_attached {reach bits}|
//    |<-- welcome {sp, reach bits} + segment fd, doorbell fd              |
//    |                            | introduced ------------------------>|   it has been told of all
//    | region_add {id, base, bytes} + fd --> region_add ----------------->|   sealed memfd
//    |<-- region_added {id, ok}  <------------ region_added {id, ok}      |   answered when every one has mapped it
//    | region_drop {id} --------->| region_drop ------------------------->|
//    | counts + fd -------------->|                                       |   memory that the rank counts in
//    |                            |                                       |   (if there is to be a report)
//    | trace + fd --------------->| trace + fd -------------------------->|   likewise; its service process
//    |                            |                                       |   writes there, too
//    | trace_settle ------------->|                                       |   what a DPU has noted is to be in
//    |                            |                                       |   its memory (Header::settled)
//    |                            | core_share {share, other job} ------->|   another job comes to its core, or goes
//    |                            | careful ----------------------------->|   too many have died
//    |                            | take_place -------------------------->|   of a dead one; ranks follow by name
//    | goodbye ------------------>| rank_left --------------------------->|
//    |                            | goodbye ----------------------------->|   the end of the job
//
// In a job of several nodes, before and after the welcome; the node leader (its local rank 0) speaks for it:
//
//    |                            |<---------- wire_address + fd            |   after configure
//    |<-- node_descriptor + fd ---------|                                         |   who serves whom here, and where
//    | job_map + fd -------------->| job_map + fd  -------------------------->|   all nodes' descriptors
//    |<-- job_map_taken {ok} <------------- job_map_taken {ok}                |   answered when every one has it
//
// When a service process of another node has been replaced, or does not answer:
//
//    |                            | peer_moved {sp, epoch} + fd ----------->|   where the one in its place is to be
//    reached |                            |<---------------------- peer_silent {sp} |   is its node there? | |
//    peer_watched {sp, epoch} -------------->|   its keeper says so
//
// Where the node's service processes run on a DPU the keeper hands their messages over the connection that dpu_link.hpp
// describes. Nothing is mapped there, so before the welcome:
//
//    | rank                     keeper                                    service process on the DPU
//    |<-- segment_offer + fd -----|                                         |
//    | rank_address + fd -------->| rank_remote + fd ---------------------->|   how to reach the rank's segment
//    |   (lets its network work)  |<---------- rank_wired {ok} -------------|   connected
//    |<-- be_quiet ---------------|   when all are                          |
//    |   (sets rank_quiet)        |<---------- rank_attached {reach bits} --|   reads and writes, without the rank's
//    help
//
// One more of them stands by there, is told the same and connects, too. When another one dies:
//
//    |                            | take_place {sp, epoch} ---------------->|   then as one that has been started again
//
// And when nobody can take its place there, or the DPU is lost, service processes of the host take all places:
//
//    |<-- leave_dpu + segment fd, doorbell fd                             |   and SegmentHeader::dpu_calls says so
//    | (shuts its network) region_add + fd, of what it has beside its segment for service processes
//    | left_dpu ----------------->| as for any that are started again ---->|   on the host, once all ranks have left
//
// One message, one packet: a fixed struct, the descriptors as SCM_RIGHTS. A packet of the wrong size, an unknown kind,
// a wrong version, an unexpected number of descriptors or a field out of range costs its sender the connection.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "copy/core_share.hpp"
#include "protocol/ids.hpp"
#include "protocol/limits.hpp"

namespace outrigger {

inline constexpr std::uint32_t kControlMagic = 0x4F555452;  // "OUTR"
inline constexpr std::size_t kMaxControlFds = 3;
inline constexpr std::size_t kSecretBytes = 16;
inline constexpr std::size_t kReasonBytes = 256;
inline constexpr std::size_t kTransportsBytes = 128;  // with longer lists DPUs are not used

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
  protest = 13,
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
  pulse = 27,
  careful = 28,
  peer_moved = 29,
  peer_silent = 30,
  peer_watched = 31,
  take_place = 32,
  leave_dpu = 33,
  left_dpu = 34,
  trace = 35,
  trace_settle = 36,
};

// How the service processes of the node can touch a rank's memory.
inline constexpr std::uint32_t kReachMapped = 1U << 0;
inline constexpr std::uint32_t kReachCma = 1U << 1;
// Ranks may start a copier (copy/board.hpp) on their service process's core; only together with kReachCma.
inline constexpr std::uint32_t kReachCopier = 1U << 2;
// Private memory is attached by XPMEM (xpmem.hpp); only together with kReachCma, which says what is not there.
inline constexpr std::uint32_t kReachXpmem = 1U << 3;
// The service processes run on a DPU and reach registered memory by RDMA; no other bit but the next then.
inline constexpr std::uint32_t kReachRdma = 1U << 4;
// Their network moves it without their memory, by exported handles; only together with kReachRdma.
inline constexpr std::uint32_t kReachAlias = 1U << 5;

// Which reaches a user allows (OUTRIGGER_REACH); bounce is always allowed, it is what is left.
inline constexpr std::uint32_t kReachAll =
    kReachMapped | kReachCma | kReachCopier | kReachXpmem | kReachRdma | kReachAlias;

struct HelloBody {
  Secret secret{};
  std::uint32_t world_rank = 0;
  std::uint32_t world_size = 0;
  std::uint32_t local_rank = 0;
  std::uint32_t local_size = 0;
  std::uint64_t probe_address = 0;  // a 64-bit word in the rank's private memory ...
  std::uint64_t probe_value = 0;  // ... and what stands there; the service process reads it, adds 1 and writes it back
  std::int64_t xpmem_segment = -1;  // of all of the rank's memory; -1: none
  std::array<std::uint64_t, kMaxCpus / 64> affinity{};
};

struct WelcomeBody {
  std::uint32_t sp = 0;
  std::uint32_t sp_count = 0;
  std::uint32_t reach = 0;                             // kReach* bits that hold for every service process of the node
  std::int32_t cpu = -1;                               // the core its service process runs on; -1: not pinned
  copy::CoreShare core_share = copy::CoreShare::none;  // of its service process
  // A process of another job that has this core, too, at the start; -1: not known which; 0: there is none.
  std::int32_t other_job = 0;
};

struct RefusedBody {
  std::array<char, kReasonBytes> reason{};
};

struct RegionBody {
  std::uint32_t world_rank = 0;  // filled in by the keeper, ignored from a rank
  std::uint32_t region = 0;
  std::uint64_t base = 0;  // in the rank's address space, page aligned
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
  std::uint32_t epoch = 1;            // 0: it stands by, to take the place of one that dies
  std::uint32_t nodes = 1;            // of the job
  std::uint32_t elsewhere = 0;        // 1: this process runs on a DPU, its ranks on the host
  std::uint64_t cache_bytes = 0;      // of the node's largest last-level cache; 0: not known
  std::uint32_t attach_limit_ms = 0;  // on a DPU: from connecting to a rank until its memory is reached
  std::uint32_t process = 0;          // on a DPU: counts all that have been started for this host
  std::uint32_t instead_of_dpu = 0;   // 1: in the place of one on a DPU, where those of other nodes may be
  std::uint32_t traced = 0;           // 1: there is to be a trace
  Secret dpu_secret{};  // what the job's DPUs were started with, which no network carries; zeros: it has none
  std::array<char, kTransportsBytes> transports{};  // that UCX may use; a process with a setting of its own keeps that
};

// To one that stands by on a DPU: it is service process `sp` from now on.
struct TakePlaceBody {
  std::uint32_t sp = 0;
  std::uint32_t epoch = 0;
  std::int32_t cpu = -1;  // filled in on the DPU
  std::uint32_t reserved = 0;
};

// Of the core of a service process, from now on.
struct CoreShareBody {
  copy::CoreShare core_share = copy::CoreShare::own;  // or shared
  std::int32_t other_job = 0;                         // as in WelcomeBody
};

// With three descriptors: ring this process writes, ring it reads, the peer's doorbell.
struct PeerRingBody {
  std::uint32_t sp = 0;
  std::uint32_t epoch = 0;  // the peer's
};

// With two descriptors: the rank's segment and (for the service process that serves it, else a duplicate) its doorbell.
struct RankJoinedBody {
  std::uint32_t world_rank = 0;
  std::uint32_t sp = 0;     // the service process that serves it
  std::int32_t pid = 0;     // as the kernel told the keeper
  std::uint32_t reach = 0;  // what the rank has been told by its welcome; 0: it has had none
  std::uint64_t probe_address = 0;
  std::uint64_t probe_value = 0;
  std::int64_t xpmem_segment = -1;
};

struct RankAttachedBody {
  std::uint32_t world_rank = 0;
  std::uint32_t reach = 0;
};

// To a service process that takes the place of another: every peer, rank and region that there is has been named.
struct IntroducedBody {
  std::uint32_t running = 0;  // 1: ranks have had their welcome
  std::uint32_t reserved = 0;
};

struct RankBody {
  std::uint32_t world_rank = 0;
  std::uint32_t reserved = 0;
};

// With one descriptor: sealed memory that holds the bytes (an address on the wire, a node descriptor, a job map).
struct SharedBytesBody {
  std::uint64_t bytes = 0;
  std::uint32_t node = 0;  // of a job map: which of its nodes this one is
  std::uint32_t reserved = 0;
};

// Of a service process of another node, by its number in the job. With one descriptor: its address on the wire.
struct PeerMovedBody {
  std::uint32_t sp = 0;
  std::uint32_t epoch = 0;
  std::uint64_t bytes = 0;
};

struct PeerBody {
  std::uint32_t sp = 0;
  std::uint32_t epoch = 0;  // of peer_watched: that it has now; 0: another one is about to take its place
};

// With one descriptor: an encoded RankAddress (rank_address.hpp).
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

// A service process will have nothing to do with this rank any more; the reason is for people.
struct ProtestBody {
  std::uint32_t world_rank = 0;
  std::array<char, kReasonBytes> reason{};
};

struct ControlHeader {
  std::uint32_t magic = kControlMagic;
  std::uint32_t version = 0;
  std::uint32_t kind = 0;
  std::uint32_t body_bytes = 0;
};

// A decoded packet: the kind, the raw body (exactly the size of the kind's struct) and the descriptors that came along.
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

// The packet for a message of `kind` with `body` (one of the structs above).
[[nodiscard]] std::vector<std::byte> encode_control(ControlKind kind, std::span<const std::byte> body);

template <class T>
[[nodiscard]] std::vector<std::byte> encode_control(ControlKind kind, const T& body) {
  return encode_control(kind, std::span<const std::byte>(std::as_bytes(std::span<const T, 1>(&body, 1))));
}

// One end of a connected SOCK_SEQPACKET socket. Not thread safe. Sends and receives whole messages; never raises
// SIGPIPE; received descriptors are close-on-exec.
class ControlSocket {
 public:
  // no_descriptors: a message has come whose descriptors this process has no room for. They are lost.
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

  // False: the peer is gone or takes nothing any more (after `timeout_ms` of a full socket).
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
  T value{};
  if (body_.size() != sizeof(T)) std::abort();  // asked for the struct of another kind: a bug of ours
  std::memcpy(&value, body_.data(), sizeof(T));
  return value;
}

}  // namespace outrigger
