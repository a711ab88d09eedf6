// How much may be under way with one peer.
//
// Where the network moves memory: always the same. Where processors carry the bytes, the network's buffers take
// whatever they are given and a link serves it in that order: the whole block of whichever peer was ready first holds
// up the others', and as most hear of the same peer first, all wait for its link while theirs are idle. So there it
// follows what a chunk takes to get there, as in Swift (G. Kumar et al., "Swift: Delay is Simple and Effective for
// Congestion Control in the Datacenter", SIGCOMM 2020): more while chunks take less than the target, less when they
// take longer, and never less than what keeps a link busy while a chunk is told of.
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

  // Begins with the least.
  void limit(Limits limits) {
    assert(limits.least_bytes <= limits.most_bytes);
    limits_ = limits;
    bytes_ = std::clamp(bytes_, limits.least_bytes, limits.most_bytes);
  }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t used_bytes() const { return used_bytes_; }

  // Whether a chunk that is charged so much may begin. One always may.
  [[nodiscard]] bool may_begin(std::uint64_t charge) {
    const bool may = used_bytes_ == 0 || used_bytes_ + charge <= bytes_;
    kept_waiting_ = kept_waiting_ || !may;
    return may;
  }
  void begun(std::uint64_t charge) { used_bytes_ += charge; }
  // It is not under way any more, by whatever end.
  void ended(std::uint64_t charge) {
    assert(used_bytes_ >= charge && "a chunk is charged for once");
    used_bytes_ -= charge;
  }
  // It got where it should. What nobody has waited for shows nothing of a greater window.
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
  bool kept_waiting_ = false;  // something, since the window last grew
};

}  // namespace outrigger::fabric::ucx
