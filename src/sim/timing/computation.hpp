// Computation of a rank, on its own or a shared core.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "sim/model/machine.hpp"

namespace outrigger::sim::timing {

class Computation {
 public:
  explicit Computation(model::Machine& machine) : machine_(machine) {}

  // `done`: after as much work as takes `work_ns` when all ranks compute. It takes longer if others work on that core.
  void run(std::uint32_t rank, std::uint64_t work_ns, std::function<void()> done) const {
    model::Processor& core = machine_.core_of_rank(rank);
    const double core_ns = static_cast<double>(work_ns) * machine_.processors.rank_part();
    core.run(model::Machine::process_of_rank(rank), static_cast<std::uint64_t>(core_ns), std::move(done));
  }

 private:
  model::Machine& machine_;
};

}  // namespace outrigger::sim::timing
