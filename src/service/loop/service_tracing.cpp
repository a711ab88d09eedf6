#include "service/loop/service_tracing.hpp"

#include "service/notices/log.hpp"

namespace outrigger::service {

fabric::Seams Tracing::around(const fabric::Seams& seams, PostIntake& posts) {
  posts.trace_in(log_);
  TracingFabric& traced = fabric_.emplace(seams.mover, seams.ranks, log_);
  return {traced, seams.messenger, traced};
}

void Tracing::take(const RankBody& body, const UniqueFd& memory) {
  const Status taken = log_.add_rank(WorldRank{body.world_rank}, memory);
  if (!taken) spdlog::warn("no trace for rank {}: {}", body.world_rank, taken.error());
}

}  // namespace outrigger::service
