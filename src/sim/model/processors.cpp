#include "sim/model/processors.hpp"

#include <algorithm>

namespace outrigger::sim::model {

Processors::Processors(fabric::sim::VirtualTime& time, const Cluster& cluster, const JobShape& shape) {
  const HostModel& host = cluster.host;
  const ServiceModel& service = cluster.service;
  const bool services_beside_ranks = service.placement == Placement::host_core && !service.own_core;
  const bool crowded = shape.ranks_per_node > host.cores;
  const bool shared = host.processors != 0 || services_beside_ranks || crowded;
  const std::uint32_t groups = host.processors == 0 ? shape.nodes : std::max(1U, host.processors / host.cores);
  for (std::uint32_t group = 0; group < (shared ? groups : 1); ++group) {
    of_ranks_.push_back(std::make_unique<Processor>(time, shared ? host.cores : 0, host.switch_ns));
  }
  if (shared) {
    const std::uint32_t nodes_a_group = (shape.nodes + groups - 1) / groups;
    rank_part_ = std::min(1.0, static_cast<double>(host.cores) / (shape.ranks_per_node * nodes_a_group));
  }
  for (std::uint32_t node = 0; service.copy_cores != 0 && node < shape.nodes; ++node) {
    of_copiers_.push_back(std::make_unique<Processor>(time, service.copy_cores, host.switch_ns));
  }
  if (!services_beside_ranks) of_services_ = std::make_unique<Processor>(time, service.processors, host.switch_ns);
}

}  // namespace outrigger::sim::model
