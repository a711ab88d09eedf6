// A job with identical nodes in which all ranks make the same call: the places of ranks and service processes, and the
// posts of ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/engine.hpp"
#include "protocol/collective.hpp"

namespace outrigger::sim {

enum class Mapping : std::uint8_t {
  contiguous,  // consecutive ranks on a node
  strided,     // round-robin over the nodes
};

struct JobShape {
  std::uint32_t nodes = 1;
  std::uint32_t ranks_per_node = 1;
  std::uint32_t services = 1;  // per node; divides ranks_per_node
  Mapping mapping = Mapping::contiguous;
};

// Ranks and service processes as numbers: all relations between them are computed.
class Places {
 public:
  explicit Places(const JobShape& shape) : shape_(shape) {}

  [[nodiscard]] const JobShape& shape() const { return shape_; }
  [[nodiscard]] std::uint32_t ranks() const { return shape_.nodes * shape_.ranks_per_node; }
  [[nodiscard]] std::uint32_t services() const { return shape_.nodes * shape_.services; }
  [[nodiscard]] std::uint32_t node_of(std::uint32_t rank) const {
    return shape_.mapping == Mapping::strided ? rank % shape_.nodes : rank / shape_.ranks_per_node;
  }
  [[nodiscard]] std::uint32_t service_of(std::uint32_t rank) const {
    const bool strided = shape_.mapping == Mapping::strided;
    const std::uint32_t on_node = strided ? rank / shape_.nodes : rank % shape_.ranks_per_node;
    return node_of(rank) * shape_.services + on_node / (shape_.ranks_per_node / shape_.services);
  }
  [[nodiscard]] std::uint32_t node_of_service(std::uint32_t service) const { return service / shape_.services; }

  // Same on every service process except for its own id.
  [[nodiscard]] engine::EngineConfig engine_config() const;
  [[nodiscard]] std::shared_ptr<const std::vector<WorldRank>> all_ranks() const;

 private:
  JobShape shape_;
};

// The call that all ranks make.
struct RegularCall {
  Collective collective = Collective::ialltoall;  // or iallgather, iallgatherv, ibcast, iallreduce
  Algorithm algorithm = Algorithm::ring_pull;
  std::uint64_t block_bytes = 0;  // for allreduce: of the vector
  std::uint32_t root = 0;
};

// A rank's post; its own block is already in place. `slot` is the rank's number.
[[nodiscard]] engine::PostedOperation regular_post(const RegularCall& call, const OperationId& id,
                                                   const std::shared_ptr<const std::vector<WorldRank>>& members,
                                                   std::uint32_t rank);

}  // namespace outrigger::sim
