// A service process's part of a trace: the event memory of each rank, and the wrappers that write to it.
//
// Thread rule: one thread.
#pragma once

#include <optional>

#include "base/unique_fd.hpp"
#include "fabric/seams.hpp"
#include "protocol/wire/control.hpp"
#include "service/loop/post_intake.hpp"
#include "service/loop/trace_log.hpp"
#include "service/loop/tracing_fabric.hpp"

namespace outrigger::service {

class Tracing {
 public:
  // Wraps the seams so that the engine's actions are recorded; posts are recorded, too. All must outlive this.
  [[nodiscard]] fabric::Seams around(const fabric::Seams& seams, PostIntake& posts);
  // From the keeper: the event memory of a rank that this service process serves.
  void take(const RankBody& body, const UniqueFd& memory);
  void remove(WorldRank rank) { log_.remove(rank); }

 private:
  TraceLog log_;
  std::optional<TracingFabric> fabric_;
};

}  // namespace outrigger::service
