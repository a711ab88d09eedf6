#include "mpi/collectives/small_blocks.hpp"

#include "mpi/job/job.hpp"
#include "protocol/options/selection.hpp"

namespace outrigger::mpi {

bool travels_as_small_blocks(const Job& job, const Blocks& blocks, bool in_pieces) {
  if (blocks.total_bytes() == 0 || blocks.total_bytes() > kSmallSideBytes) return false;
  // A DPU reads registered memory where it is, and XPMEM maps private memory as well.
  if (job.client->reached_by(kReachRdma | kReachXpmem)) return false;
  return job.client->reached_by(kReachMapped) && (in_pieces || blocks.largest_bytes() <= kSmallBlockBytes);
}

bool is_kept(const Job& job, const Blocks& blocks) {
  if (blocks.total_bytes() == 0) return true;
  return blocks.staged() && blocks.total_bytes() <= kSmallSideBytes && !job.client->reached_by(kReachRdma);
}

}  // namespace outrigger::mpi
