// Which cores the ranks and service processes of a job run on.
//
//     host.processors unset   each node has its own `host.cores`
//     host.processors = N     nodes are parts of one machine of N cores: each has `host.cores` of them, in turn
//
// Ranks have a core each as long as no two can want the same one; service processes have their own, or with
// `own_core = false` those of their node's ranks.
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
  // What a rank has of a core while all ranks compute: 1, or less where they share cores.
  [[nodiscard]] double rank_part() const { return rank_part_; }

 private:
  double rank_part_ = 1;
  std::vector<std::unique_ptr<Processor>> of_ranks_;  // nodes have them in turn
  std::unique_ptr<Processor> of_services_;            // null: those of the ranks
};

}  // namespace outrigger::sim::model
