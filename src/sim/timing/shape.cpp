#include "sim/timing/shape.hpp"

#include <fmt/format.h>

namespace outrigger::sim::timing {

Status check_shape(const model::Cluster& cluster, const JobShape& shape) {
  if (shape.nodes == 0 || shape.nodes > cluster.nodes) {
    return Error{fmt::format("nodes: from 1 to {}, as many as the cluster has", cluster.nodes)};
  }
  const bool may_share = cluster.host.waiting != model::Waiting::unknown;
  if (shape.ranks_per_node == 0 || (shape.ranks_per_node > cluster.host.cores && !may_share)) {
    return Error{fmt::format(
        "ranks per node: from 1 to {}, as many as a host has cores; more may share cores if the cluster's file says "
        "how they wait, by host.waiting",
        cluster.host.cores)};
  }
  if (shape.services == 0 || shape.ranks_per_node % shape.services != 0) {
    return Error{fmt::format("services: {} does not divide {} ranks per node", shape.services, shape.ranks_per_node)};
  }
  return Done();
}

}  // namespace outrigger::sim::timing
