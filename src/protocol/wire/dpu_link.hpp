// Messages between a host's keeper and `outriggerd dpu` over TCP. Fixed width, little-endian, every field checked.
//
// First both prove that they know the secret of the job's DPUs (proof/dpu_handshake.hpp). Then frames, either way: a
// header, a packet, and the bytes that a descriptor would have carried on one machine.
//
//   control   a control message (control.hpp) for, or from, service process `sp`
//   job       description of the node's job (keeper)         -> ready
//   ready     service processes have started (DPU)
//   failed    they have not, and the reason as text (DPU)
//   lost      a service process has ended, and how (DPU)
//   standby  start a standby process, number `sp` (keeper)
//   replace   the standby process replaces service process `sp`, which is lost (keeper)
//   alive     heartbeat, every second
//   trace     trace service process `sp` for this rank (keeper)
//   trace_ask asks for the clock and, optionally, for trace events (keeper)
//   trace_events  events of one rank, as the attached bytes (DPU; trace/remote_events.hpp)
//   trace_told    the answer, after the events (DPU)
//   figures_ask   asks for counters (keeper, while the job is being watched)
//   figures       the counters, as the attached bytes (DPU; protocol/wire/dpu_figures.hpp)
//
// Instead of a job, to test a DPU's access to its host:
//
//   probe     the address of the host's memory (keeper's part)
//   wired     connected: the host may stop driving its network (DPU)
//   probed    the results (DPU)
//
// DpuLink owns the socket; only connect blocks. Thread rule: one thread.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "protocol/wire/control.hpp"
#include "protocol/wire/message_io.hpp"

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
  standby = 10,
  replace = 11,
  trace = 12,
  trace_ask = 13,
  trace_events = 14,
  trace_told = 15,
  figures_ask = 16,
  figures = 17
};

inline constexpr std::uint32_t kDpuFrameMagic = 0x4C44524F;  // "ORDL"
inline constexpr std::size_t kMaxDpuPacketBytes = 1024;
inline constexpr std::size_t kMaxDpuAttachedBytes = 256U << 20;

struct DpuFrame {
  DpuFrameKind kind = DpuFrameKind::alive;
  std::uint32_t sp = 0;  // a place, or dpu_standby() of a standby process
  std::vector<std::byte> packet;
  std::vector<std::byte> attached;
  static constexpr void fields(auto& io, auto& frame) {
    io.constant(kDpuFrameMagic);
    io.code(frame.kind, DpuFrameKind::control, DpuFrameKind::figures);
    io.value(frame.sp);
    io.list(frame.packet, kMaxDpuPacketBytes);
    io.list(frame.attached, kMaxDpuAttachedBytes);
  }
};

struct DpuJob {
  std::uint32_t local_size = 0;
  std::uint32_t services = 0;         // requested number; 0: the DPU decides
  std::uint32_t attach_limit_ms = 0;  // for reaching the ranks' memory; until then this is also the silence limit
};

struct DpuReady {
  std::uint32_t services = 0;
  std::uint32_t reserved = 0;
  std::array<char, 64> name{};  // name of the DPU
};

struct DpuLost {
  std::uint32_t killed = 0;     // 1: by a signal, without a message: a replacement may work
  std::uint32_t has_taken = 0;  // 1: it has taken operations; the fields name the last one
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
  std::uint32_t events = 0;  // 1: send events, too
  std::uint32_t reserved = 0;
};

struct DpuTraceTold {
  std::uint64_t number = 0;  // of the request
  std::int64_t at_ns = 0;    // CLOCK_MONOTONIC there
  std::uint32_t more = 0;    // 1: there are more events
  std::uint32_t noted = 0;   // number of ranks that are traced now
};

struct DpuFiguresAsk {
  std::uint64_t number = 0;
};

struct DpuProbed {
  std::uint32_t reach = 0;  // kReach* bits; 0: none, and `text` has the reason
  double round_trip_us = 0;
  double bytes_per_s = 0;
  std::array<char, 128> device{};
  std::array<char, kReasonBytes> text{};
  static constexpr void fields(auto& io, auto& probed) {
    io.value(probed.reach, probed.round_trip_us, probed.bytes_per_s, probed.device, probed.text);
  }
};

// Address of a standby process until it has a place, by its number (ConfigureBody::process).
constexpr std::uint32_t dpu_standby(std::uint32_t process) {
  return kMaxServices + process;
}

inline constexpr std::chrono::seconds kDpuSilence{5};  // silence after which the other end counts as lost
// Time for which service processes on a DPU may work after the last check by `outriggerd dpu`.
inline constexpr std::chrono::milliseconds kDpuWorkAfterLook{1500};

class DpuLink {
 public:
  using Clock = std::chrono::steady_clock;

  DpuLink() = default;
  // A connected socket. The handshake must come before all calls below.
  explicit DpuLink(UniqueFd socket);

  // Connects to HOST:PORT. Errors name it.
  [[nodiscard]] static Result<DpuLink> connect(const std::string& address, Clock::time_point deadline);

  [[nodiscard]] bool open() const { return socket_.valid(); }
  [[nodiscard]] int fd() const { return socket_.get(); }
  void close() { socket_.reset(); }
  // The other end closed it in order, by itself or by its system after its end.
  [[nodiscard]] bool ended_by_other() const { return ended_by_other_; }
  // The reason why it was closed.
  [[nodiscard]] const std::string& problem() const { return problem_; }

  void send(DpuFrameKind kind, std::uint32_t sp, std::span<const std::byte> packet,
            std::span<const std::byte> attached = {});
  // Sends waiting bytes and receives.
  void work(Clock::time_point now);
  [[nodiscard]] bool wants_to_write() const { return !outgoing_.empty(); }
  // The next received frame.
  [[nodiscard]] std::optional<DpuFrame> next();
  // Silence after which the other end counts as lost; default and minimum: kDpuSilence.
  void allow_silence(std::chrono::milliseconds limit) { silence_ = std::max<Clock::duration>(limit, kDpuSilence); }
  // Time until which the other end does not consider this end lost.
  [[nodiscard]] Clock::time_point holds_until() const { return last_came_ + silence_; }
  // Sends heartbeats, and closes a connection whose other end has been silent too long. Time in which this process
  // stood still does not count. Call it about every second, after work().
  void tick(Clock::time_point now);

 private:
  void fail(std::string problem);
  void closed_by_other();
  void broken(int error);
  void flush();

  UniqueFd socket_;
  std::string problem_;
  bool ended_by_other_ = false;
  std::vector<std::byte> outgoing_;
  std::size_t sent_ = 0;
  std::vector<std::byte> incoming_;
  std::size_t taken_ = 0;
  Clock::time_point heard_;      // later if this end has stood still
  Clock::time_point last_came_;  // any input
  Clock::time_point spoke_;
  Clock::time_point ticked_;
  Clock::duration silence_ = kDpuSilence;
};

}  // namespace outrigger
