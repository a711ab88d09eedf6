// The cores of a job's ranks and service processes.
//
//   host.processors unset   each node has its own `host.cores`
//   host.processors = N     nodes are parts of one machine of N cores: each has `host.cores` of them, round-robin
//
// Each rank has a core as long as there are enough. Service processes have their own cores, or share those of their
// node's ranks if `own_core = false`.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/model/cluster.hpp"
#include "sim/model/processor.hpp"
#include "sim/regular_job.hpp"

namespace outrigger::sim::model {

class Processors {
 public:
  Processors(fabric::sim::VirtualTime& time, const Cluster& cluster, const JobShape& shape);

  [[nodiscard]] Processor& of_ranks(std::uint32_t node) { return *of_ranks_[node % of_ranks_.size()]; }
  [[nodiscard]] Processor& of_services(std::uint32_t node) {
    return of_services_ == nullptr ? of_ranks(node) : *of_services_;
  }
  // Where the ranks' copiers run, if service processes are on a DPU and there are such cores.
  [[nodiscard]] Processor& of_copiers(std::uint32_t node) { return *of_copiers_[node]; }
  // A rank's share of a core while all ranks compute: 1, or less if they share cores.
  [[nodiscard]] double rank_part() const { return rank_part_; }

 private:
  double rank_part_ = 1;
  std::vector<std::unique_ptr<Processor>> of_ranks_;    // nodes have them round-robin
  std::unique_ptr<Processor> of_services_;              // nullptr: the ranks' processors
  std::vector<std::unique_ptr<Processor>> of_copiers_;  // by node; none without such cores
};

}  // namespace outrigger::sim::model
