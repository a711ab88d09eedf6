// A core that copies, or reduces: it is busy until it has been through the bytes at its own rate and its node's memory
// has let them through, whichever is later. Cores of a node share the memory, and processes may share the core.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>

#include "sim/model/network.hpp"
#include "sim/model/processor.hpp"

namespace outrigger::sim::model {

// Time that a core needs for so many bytes.
[[nodiscard]] inline std::uint64_t bytes_ns(std::uint64_t bytes, double bytes_per_s) {
  return static_cast<std::uint64_t>(std::llround(static_cast<double>(bytes) / bytes_per_s * 1e9));
}

class CoreCopy final : public Receiver {
 public:
  CoreCopy(Network& network, Processor& processor) : network_(network), processor_(processor) {}

  // One at a time. `done` is called when the core is free again. Memory has so many bytes to let through, perhaps none.
  void begin(const Route& route, std::uint64_t bytes, std::uint64_t core_ns, std::function<void()> done) {
    if (bytes == 0) return processor_.run(core_ns, std::move(done));
    done_ = std::move(done);
    ends_left_ = 2;
    processor_.run(core_ns, [this] { end_of_one(); });
    network_.send(route, bytes, *this);
  }
  void chunk_arrived(std::uint64_t /*bytes*/, bool last) override {
    if (last) end_of_one();
  }

 private:
  void end_of_one() {
    if (--ends_left_ != 0) return;
    const std::function<void()> done = std::exchange(done_, nullptr);
    done();
  }

  Network& network_;
  Processor& processor_;
  std::uint32_t ends_left_ = 0;
  std::function<void()> done_;
};

}  // namespace outrigger::sim::model
