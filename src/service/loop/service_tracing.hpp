// A service process's part of a trace, where its ranks write one: the memory of each, and the fabric that notes in it.
//
// Thread rule: one thread.
#pragma once

#include <optional>

#include "base/unique_fd.hpp"
#include "protocol/wire/control.hpp"
#include "service/loop/post_intake.hpp"
#include "service/loop/trace_log.hpp"
#include "service/loop/tracing_fabric.hpp"

namespace outrigger::service {

class Tracing {
 public:
  // What the engine is to work on: a fabric around this one. What is posted is noted, too. All must outlive this.
  [[nodiscard]] fabric::Fabric& around(fabric::Fabric& all, PostIntake& posts);
  // From the keeper: the memory of a rank that this service process serves.
  void take(const RankBody& body, const UniqueFd& memory);
  void remove(WorldRank rank) { log_.remove(rank); }

 private:
  TraceLog log_;
  std::optional<TracingFabric> fabric_;
};

}  // namespace outrigger::service
