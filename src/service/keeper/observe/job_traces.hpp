// The events of the ranks of this node, and of service processes for them, kept beyond their end. After MPI_Finalize
// world rank 0 has written those of all ranks; else the keepers write, each those of its node.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "service/keeper/ranks/local_ranks.hpp"
#include "trace/event_memory.hpp"

namespace outrigger::service {

class JobTraces {
 public:
  explicit JobTraces(std::uint32_t local_size) : ranks_(local_size) {}

  // Memory from a rank, which then has the descriptor for its service process. Error: it is none that events are
  // written to, or the rank has given some before.
  [[nodiscard]] Status take(LocalRank& rank, UniqueFd memory);
  // Nothing of its service process is under way to the rank's memory.
  void say_settled(std::uint32_t local_rank);
  // Is there something to write: have ranks gone without world rank 0 having written the events of all?
  [[nodiscard]] bool left() const;
  // Once no rank is here any more, and something is left: to the trace's path with ".node-" and the node's number
  // behind it.
  void write() const;

 private:
  std::vector<std::optional<trace::Memory>> ranks_;  // by local rank
};

}  // namespace outrigger::service
