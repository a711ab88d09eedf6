#include "service/loop/service_tracing.hpp"

#include "service/notices/log.hpp"

namespace outrigger::service {

fabric::Fabric& Tracing::around(fabric::Fabric& all, PostIntake& posts) {
  posts.trace_in(log_);
  return fabric_.emplace(all, log_);
}

void Tracing::take(const RankBody& body, const UniqueFd& memory) {
  const Status taken = log_.add_rank(WorldRank{body.world_rank}, memory);
  if (!taken) spdlog::warn("no trace for rank {}: {}", body.world_rank, taken.error());
}

}  // namespace outrigger::service
