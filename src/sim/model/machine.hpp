// The part of the model that both sides share: virtual time, the cluster's ports, and the places of ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "fabric/sim/virtual_time.hpp"
#include "sim/model/cluster.hpp"
#include "sim/model/model_network.hpp"
#include "sim/model/processors.hpp"
#include "sim/model/topology.hpp"
#include "sim/regular_job.hpp"

namespace outrigger::sim::model {

struct Machine {
  // `footprint_bytes`: total size of the buffers of a node's ranks.
  Machine(const Cluster& cluster_model, const JobShape& shape, std::uint64_t footprint_bytes = UINT64_MAX)
      : cluster(cluster_model),
        missed(missed_part(cluster_model.host.cache_bytes, footprint_bytes)),
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

  [[nodiscard]] Processor& core_of_rank(std::uint32_t rank) { return processors.of_ranks(places.node_of(rank)); }
  [[nodiscard]] static ProcessId process_of_rank(std::uint32_t rank) { return ProcessId{rank}; }
  [[nodiscard]] ProcessId process_of_service(std::uint32_t service) const {
    return ProcessId{places.ranks() + service};
  }

  // Effective copy rate. If the cluster has caches, `bytes_per_s` is the rate within them and `missed_bytes_per_s` the
  // rate outside. If the latter is 0, memory traffic (read and write) is simulated beside the copy.
  [[nodiscard]] double copy_rate(double bytes_per_s, double missed_bytes_per_s) const {
    const HostModel& host = cluster.host;
    const double memory = host.memory_bytes_per_s / 2;
    if (host.cache_bytes == 0) return std::min(bytes_per_s, memory);
    const double missed_s = missed_bytes_per_s > 0 ? 1 / missed_bytes_per_s : 1 / bytes_per_s + 1 / memory;
    return 1 / ((1 - missed) / bytes_per_s + missed * missed_s);
  }
  // The share of copied bytes that loads memory.
  [[nodiscard]] std::uint64_t bytes_of_memory(std::uint64_t bytes) const {
    return static_cast<std::uint64_t>(missed * static_cast<double>(bytes));
  }

  const Cluster& cluster;
  double missed;  // share of all buffers that is not in the node's caches
  Places places;
  fabric::sim::VirtualTime time;
  Network network;
  Topology topology;
  Processors processors;
  std::vector<std::uint64_t> service_busy_ns;  // by node: busy time of its service processes' cores
 private:
  // For round-robin access and random replacement, a cache keeps as much as fits.
  static double missed_part(std::uint64_t cache_bytes, std::uint64_t footprint_bytes) {
    if (footprint_bytes <= cache_bytes) return 0;
    return 1 - static_cast<double>(cache_bytes) / static_cast<double>(footprint_bytes);
  }
};

}  // namespace outrigger::sim::model
