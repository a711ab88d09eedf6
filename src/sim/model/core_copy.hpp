// A core that copies or reduces. It is busy until it has processed the bytes at its own rate and its node's memory has
// transferred them, whichever is later. Cores of a node share the memory; processes may share the core.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>

#include "sim/model/machine.hpp"
#include "sim/model/processor.hpp"

namespace outrigger::sim::model {

// A core's time for this many bytes.
[[nodiscard]] inline std::uint64_t bytes_ns(std::uint64_t bytes, double bytes_per_s) {
  return static_cast<std::uint64_t>(std::llround(static_cast<double>(bytes) / bytes_per_s * 1e9));
}

// Time of a host core for a copy within a process.
[[nodiscard]] inline std::uint64_t host_copy_ns(const Machine& machine, std::uint64_t bytes) {
  const HostModel& host = machine.cluster.host;
  return bytes_ns(bytes, machine.copy_rate(host.copy_bytes_per_s, host.missed_bytes_per_s));
}

// Time of a copy from one rank's memory to another's, by a service process or for it.
[[nodiscard]] inline std::uint64_t service_copy_ns(const Machine& machine, std::uint64_t bytes) {
  const ServiceModel& service = machine.cluster.service;
  return bytes_ns(bytes, machine.copy_rate(service.copy_bytes_per_s, service.missed_bytes_per_s));
}

class CoreCopy final : public Receiver {
 public:
  CoreCopy(Machine& machine, Processor& processor, ProcessId process)
      : machine_(machine), processor_(processor), process_(process) {}

  // One at a time, within the node. `done` is called when the core is free again.
  void begin(std::uint32_t node, std::uint64_t bytes, std::uint64_t core_ns, std::function<void()> done) {
    const std::uint64_t of_memory = machine_.bytes_of_memory(bytes);
    if (of_memory == 0) return processor_.run(process_, core_ns, std::move(done));
    done_ = std::move(done);
    ends_left_ = 2;
    processor_.spin(process_, true);
    processor_.run(process_, core_ns, [this] { end_of_one(); });
    machine_.network.send(machine_.topology.copy(node), of_memory, *this);
  }
  void chunk_arrived(std::uint64_t /*bytes*/, bool last) override {
    if (last) end_of_one();
  }

 private:
  void end_of_one() {
    if (--ends_left_ != 0) return;
    processor_.spin(process_, false);
    const std::function<void()> done = std::exchange(done_, nullptr);
    done();
  }

  Machine& machine_;
  Processor& processor_;
  ProcessId process_;
  std::uint32_t ends_left_ = 0;
  std::function<void()> done_;
};

}  // namespace outrigger::sim::model
