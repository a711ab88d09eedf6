// The part of the model that both sides share: virtual time, the cluster's ports, and where ranks are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "fabric/sim/virtual_time.hpp"
#include "sim/model/cluster.hpp"
#include "sim/model/network.hpp"
#include "sim/model/processors.hpp"
#include "sim/model/topology.hpp"
#include "sim/regular_job.hpp"

namespace outrigger::sim::model {

struct Machine {
  // `footprint_bytes`: what the buffers of a node's ranks have in all.
  Machine(const Cluster& cluster_model, const JobShape& shape, std::uint64_t footprint_bytes = UINT64_MAX)
      : cluster(cluster_model),
        cached(footprint_bytes <= cluster_model.host.cache_bytes),
        places(shape),
        network(time, cluster_model.network.chunk_bytes),
        topology(cluster, shape.nodes, network),
        processors(time, cluster_model, shape),
        service_busy_ns(shape.nodes) {}
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  [[nodiscard]] Place place_of_rank(std::uint32_t rank) const { return Place{places.node_of(rank), Memory::host}; }
  [[nodiscard]] Place place_of_service(std::uint32_t service) const {
    const bool on_dpu = cluster.service.placement == Placement::dpu;
    return Place{places.node_of_service(service), on_dpu ? Memory::dpu : Memory::host};
  }

  // Of what a core of the node copies.
  [[nodiscard]] Route copy_route(std::uint32_t node) const { return cached ? Route() : topology.copy(node); }

  // What a core that copies by itself comes to: it reads and writes each byte.
  [[nodiscard]] double copy_bytes_per_s() const {
    const HostModel& host = cluster.host;
    return cached ? host.copy_bytes_per_s : std::min(host.copy_bytes_per_s, host.memory_bytes_per_s / 2);
  }

  const Cluster& cluster;
  bool cached;  // buffers lie in the node's caches
  Places places;
  fabric::sim::VirtualTime time;
  Network network;
  Topology topology;
  Processors processors;
  std::vector<std::uint64_t> service_busy_ns;  // by node: what its service processes' cores have worked
};

}  // namespace outrigger::sim::model
