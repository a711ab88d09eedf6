// The other nodes of the job: the wire to them, who is there, by which ways data travels.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/result.hpp"
#include "fabric/node_memory.hpp"
#include "fabric/ucx/cluster_fabric.hpp"
#include "fabric/ucx/wire.hpp"
#include "protocol/job_map.hpp"

namespace outrigger::service {

class OtherNodes {
 public:
  // As Wire::open().
  [[nodiscard]] Status open(fabric::ucx::WireOptions options, fabric::NodeMemory& memory);
  // After open().
  [[nodiscard]] fabric::ucx::Wire& wire() { return *wire_; }
  // Once, after open(). `node`: this one's number, and its fabric. Error: it does not fit this node or wire.
  [[nodiscard]] Status introduce(JobMap job_map, std::uint32_t node, std::uint32_t sp, fabric::Fabric& node_fabric);

  [[nodiscard]] bool is_open() const { return wire_ != nullptr; }
  // After introduce(); null before.
  [[nodiscard]] const JobMap* job_map() const { return job_map_ ? &*job_map_ : nullptr; }
  [[nodiscard]] SpId self() const { return self_; }
  [[nodiscard]] fabric::Fabric& fabric() { return *cluster_; }

  // The others must not take the end of a job that ended well for the loss of a node. Blocks for a moment.
  void leave(fabric::ucx::Wire::Farewell farewell);

 private:
  std::unique_ptr<fabric::ucx::Wire> wire_;
  std::optional<JobMap> job_map_;
  SpId self_;
  std::optional<fabric::ucx::ClusterFabric> cluster_;
};

}  // namespace outrigger::service
