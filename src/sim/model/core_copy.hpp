// A core that copies, or reduces: it is busy until it has been through the bytes at its own rate and its node's memory
// has let them through, whichever is later. Cores of a node share the memory.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>

#include "fabric/sim/virtual_time.hpp"
#include "sim/model/network.hpp"

namespace outrigger::sim::model {

// Time that a core needs for so many bytes.
[[nodiscard]] inline std::uint64_t bytes_ns(std::uint64_t bytes, double bytes_per_s) {
  return static_cast<std::uint64_t>(std::llround(static_cast<double>(bytes) / bytes_per_s * 1e9));
}

class CoreCopy final : public Receiver {
 public:
  CoreCopy(fabric::sim::VirtualTime& time, Network& network) : time_(time), network_(network) {}

  // One at a time. `done` is called when the core is free again.
  void begin(const Route& route, std::uint64_t bytes, std::uint64_t core_ns, std::function<void()> done) {
    core_end_ns_ = time_.now_ns() + core_ns;
    done_ = std::move(done);
    network_.send(route, bytes, *this);
  }
  void chunk_arrived(std::uint64_t /*bytes*/, bool last) override {
    if (last) time_.at(core_end_ns_, std::exchange(done_, nullptr));
  }

 private:
  fabric::sim::VirtualTime& time_;
  Network& network_;
  std::uint64_t core_end_ns_ = 0;
  std::function<void()> done_;
};

}  // namespace outrigger::sim::model
