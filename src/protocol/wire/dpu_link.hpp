// What a host's keeper and `outriggerd dpu` say to each other over TCP. Fixed width, little-endian, every field
// checked.
//
// First both prove that they know the secret of the job's DPUs (proof/dpu_handshake.hpp). Then frames, either way: a
// header, a packet, and the bytes that a descriptor would have carried on one machine.
//
//   control   a control message (control.hpp) for, or of, service process `sp`
//   job       what the node's job is like (keeper)         -> ready
//   ready     service processes are there (DPU)
//   failed    or not, and why: a text (DPU)
//   lost      a service process has ended, and how (DPU)
//   stand_by  start one more, process `sp`, that stands by (keeper)
//   replace   the one that stands by takes the place of service process `sp`, which has been lost (keeper)
//   alive     a sign of life, every second
//   trace     events of service process `sp` for this rank are wanted (keeper)
//   trace_ask what does the clock say, and, if that is wanted, what events are there? (keeper)
//   trace_events  some of them, of one rank (DPU; trace/remote_events.hpp)
//   trace_told    the answer, behind them (DPU)
//   figures_ask   what have service processes counted? (keeper, when somebody watches the job)
//   figures       that (DPU; protocol/wire/dpu_figures.hpp)
//
// Instead of a job, to find out what a DPU offers its host:
//
//   probe     the address of the host's memory (keeper's part)
//   wired     connected: the host may leave its network alone (DPU)
//   probed    what was found (DPU)
//
// DpuLink owns the socket; nothing of it blocks but connect. Thread rule: one thread.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "protocol/wire/control.hpp"

namespace outrigger {

enum class DpuFrameKind : std::uint32_t {
  control = 1,
  job = 2,
  ready = 3,
  failed = 4,
  lost = 5,
  alive = 6,
  probe = 7,
  wired = 8,
  probed = 9,
  stand_by = 10,
  replace = 11,
  trace = 12,
  trace_ask = 13,
  trace_events = 14,
  trace_told = 15,
  figures_ask = 16,
  figures = 17
};

struct DpuFrame {
  DpuFrameKind kind = DpuFrameKind::alive;
  std::uint32_t sp = 0;  // a place, or dpu_stand_by() of a process that has none
  std::vector<std::byte> packet;
  std::vector<std::byte> attached;
};

struct DpuJob {
  std::uint32_t local_size = 0;
  std::uint32_t services = 0;         // wanted; 0: the DPU decides
  std::uint32_t attach_limit_ms = 0;  // for reaching the ranks' memory; so long either side may be silent until then
};

struct DpuReady {
  std::uint32_t services = 0;
  std::uint32_t reserved = 0;
  std::array<char, 64> name{};  // of the DPU
};

struct DpuLost {
  std::uint32_t killed = 0;     // 1: by a signal, without a word: another one may do better
  std::uint32_t has_taken = 0;  // 1: operations, the last one of them this
  std::uint64_t group_high = 0;
  std::uint64_t group_low = 0;
  std::uint64_t sequence = 0;
  std::array<char, kReasonBytes> how{};
};

struct DpuTraced {
  std::uint32_t world_rank = 0;
  std::uint32_t reserved = 0;
};

struct DpuTraceAsk {
  std::uint64_t number = 0;
  std::uint32_t events = 0;  // 1: they are wanted, too
  std::uint32_t reserved = 0;
};

struct DpuTraceTold {
  std::uint64_t number = 0;  // as it was asked
  std::int64_t at_ns = 0;    // CLOCK_MONOTONIC there
  std::uint32_t more = 0;    // 1: there are more events
  std::uint32_t noted = 0;   // ranks for which service processes note them by now
};

struct DpuFiguresAsk {
  std::uint64_t number = 0;
};

struct DpuProbed {
  std::uint32_t reach = 0;  // kReach* bits; 0: none, and `text` says why
  std::uint32_t reserved = 0;
  double round_trip_us = 0;
  double bytes_per_s = 0;
  std::array<char, 128> device{};
  std::array<char, kReasonBytes> text{};
};

// How a process that stands by is called until it has a place, by its number (ConfigureBody::process).
constexpr std::uint32_t dpu_stand_by(std::uint32_t process) {
  return kMaxServices + process;
}

inline constexpr std::size_t kMaxDpuPacketBytes = 1024;
inline constexpr std::size_t kMaxDpuAttachedBytes = 256U << 20;
inline constexpr std::chrono::seconds kDpuSilence{5};  // after which the other end counts as lost
// Service processes on a DPU work only so long after `outriggerd dpu` has looked at them last.
inline constexpr std::chrono::milliseconds kDpuWorkAfterLook{1500};

[[nodiscard]] std::vector<std::byte> encode_dpu_frame(DpuFrameKind kind, std::uint32_t sp,
                                                      std::span<const std::byte> packet,
                                                      std::span<const std::byte> attached);
// The first frame of `bytes`, with how many of them it takes; nothing: not all there yet. Error: not a frame.
struct ParsedDpuFrame {
  DpuFrame frame;
  std::size_t bytes = 0;
};
[[nodiscard]] Result<std::optional<ParsedDpuFrame>> parse_dpu_frame(std::span<const std::byte> bytes);

// A struct as the packet of a frame, and back; nothing where the size is another.
template <class T>
[[nodiscard]] std::optional<T> dpu_packet_as(const DpuFrame& frame) {
  T value{};
  if (frame.packet.size() != sizeof(T)) return std::nullopt;
  std::memcpy(&value, frame.packet.data(), sizeof(T));
  return value;
}

class DpuLink {
 public:
  using Clock = std::chrono::steady_clock;

  DpuLink() = default;
  // A connected socket. It is to be greeted by before anything below.
  explicit DpuLink(UniqueFd socket);

  // Connects to HOST:PORT. Errors name it.
  [[nodiscard]] static Result<DpuLink> connect(const std::string& address, Clock::time_point deadline);

  [[nodiscard]] bool open() const { return socket_.valid(); }
  [[nodiscard]] int fd() const { return socket_.get(); }
  void close() { socket_.reset(); }
  // It was closed in order there, by the process or, as it has ended, by its system.
  [[nodiscard]] bool ended_by_other() const { return ended_by_other_; }
  // Why it was closed.
  [[nodiscard]] const std::string& problem() const { return problem_; }

  void send(DpuFrameKind kind, std::uint32_t sp, std::span<const std::byte> packet,
            std::span<const std::byte> attached = {});
  // Sends what waits and takes in what has come.
  void work(Clock::time_point now);
  [[nodiscard]] bool wants_to_write() const { return !outgoing_.empty(); }
  // The next frame that is here.
  [[nodiscard]] std::optional<DpuFrame> next();
  // Until the other end counts as lost; kDpuSilence unless told otherwise.
  void allow_silence(std::chrono::milliseconds limit) { silence_ = std::max<Clock::duration>(limit, kDpuSilence); }
  // The other end has been there then, and so long after that it does not take this one for lost.
  [[nodiscard]] Clock::time_point holds_until() const { return last_came_ + silence_; }
  // A sign of life when it is time for one; closes a connection whose other end has been silent for too long, of which
  // only the time counts in which this end looked. To be called every second or so, after work().
  void tick(Clock::time_point now);

 private:
  void fail(std::string problem);
  void broken(int error);
  void flush();

  UniqueFd socket_;
  std::string problem_;
  bool ended_by_other_ = false;
  std::vector<std::byte> outgoing_;
  std::size_t sent_ = 0;
  std::vector<std::byte> incoming_;
  std::size_t taken_ = 0;
  Clock::time_point heard_;      // later than that, where this end has stood still
  Clock::time_point last_came_;  // anything
  Clock::time_point spoke_;
  Clock::time_point ticked_;
  Clock::duration silence_ = kDpuSilence;
};

}  // namespace outrigger
