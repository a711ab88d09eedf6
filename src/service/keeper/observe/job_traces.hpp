// Trace events of this node's ranks and of their service processes, kept beyond the ranks' end. After MPI_Finalize
// world rank 0 writes those of all ranks. Otherwise each keeper writes those of its node.
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

  // Takes a rank's memory; the rank object keeps the descriptor for its service process. Error: it is not memory for
  // events, or the rank has given some before.
  [[nodiscard]] Status take(LocalRank& rank, UniqueFd memory);
  // No writes of its service process to the rank's memory are pending.
  void mark_settled(std::uint32_t local_rank);
  // True if ranks have left and world rank 0 has not written the events of all.
  [[nodiscard]] bool left() const;
  // Writes to the trace's path with ".node-" and the node's number appended. Only if left() and no rank is here any
  // more.
  void write() const;

 private:
  std::vector<std::optional<trace::Memory>> ranks_;  // by local rank
};

}  // namespace outrigger::service
