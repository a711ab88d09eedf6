// Limits the bytes in flight with one peer.
//
// If the network moves memory, the window is constant. If processors carry the bytes, the network's buffers take
// everything, and a link serves it in that order. Whole blocks of the first ready peer then delay the others'. Most
// processes choose the same peer first, and wait for its link while other links are idle. So the window follows the
// delay of chunks, as in Swift (G. Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the
// Datacenter", SIGCOMM 2020). It grows while chunks take less than the target and shrinks when they take longer, but
// always keeps a link busy during a chunk's round trip.
//
// Thread rule: one thread.
#pragma once

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstdint>
#include <utility>

namespace outrigger::fabric::ucx {

class PeerWindow {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::microseconds kTarget{1000};

  struct Limits {
    std::uint64_t least_bytes = 0;
    std::uint64_t most_bytes = 0;
  };

  // Starts with the minimum.
  void limit(Limits limits) {
    assert(limits.least_bytes <= limits.most_bytes);
    limits_ = limits;
    bytes_ = std::clamp(bytes_, limits.least_bytes, limits.most_bytes);
  }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t used_bytes() const { return used_bytes_; }

  // True if a chunk with this charge may begin. The first one always may.
  [[nodiscard]] bool may_begin(std::uint64_t charge) {
    const bool may = used_bytes_ == 0 || used_bytes_ + charge <= bytes_;
    kept_waiting_ = kept_waiting_ || !may;
    return may;
  }
  void begun(std::uint64_t charge) { used_bytes_ += charge; }
  // The chunk has ended, successfully or not.
  void ended(std::uint64_t charge) {
    assert(used_bytes_ >= charge && "a chunk is charged once");
    used_bytes_ -= charge;
  }
  // The chunk has arrived. The window only grows if a chunk had to wait.
  void arrived(std::uint64_t charge, Clock::duration after) {
    if (after > kTarget) {
      bytes_ = std::max(limits_.least_bytes, bytes_ - std::min(bytes_, charge));
    } else if (std::exchange(kept_waiting_, false)) {
      bytes_ = std::min(limits_.most_bytes, bytes_ + charge);
    }
  }

 private:
  Limits limits_;
  std::uint64_t bytes_ = 0;
  std::uint64_t used_bytes_ = 0;
  bool kept_waiting_ = false;  // a chunk, since the window last grew
};

}  // namespace outrigger::fabric::ucx
