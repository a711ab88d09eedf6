// Keeperless mode: what a service process does after its keeper has died. It continues to serve its node's ranks,
// watches them itself, and ends when the last one has left. It has no replacement: ranks see by a lock that it lives
// (protocol/shared/life_lock.hpp). On a DPU the keeper's death ends the connection to the host, so this mode does not
// exist there.
//
// For the loop it is a port once the keeper has died.
//
// Thread rule: one thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "fabric/port.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::service {

class KeeperlessMode final : public fabric::Port {
 public:
  // A rank that has not used service processes by then was not welcomed and runs natively.
  static constexpr std::chrono::seconds kForWelcome{5};

  // Adds a rank of this node, while the keeper lives.
  void know(WorldRank rank, pid_t pid, SegmentView segment) { ranks_.push_back(Rank{rank, pid, segment, {}}); }
  void forget(WorldRank rank);
  // Takes the life lock on the segment of a served rank.
  void show_life(UniqueFd segment);

  // The keeper has died. False: the ranks cannot be watched.
  [[nodiscard]] bool begin(Clock::time_point now);
  // Ranks that have ended since the last call.
  [[nodiscard]] std::vector<WorldRank> take_gone() { return std::exchange(gone_, {}); }
  [[nodiscard]] bool empty() const { return ranks_.empty(); }

  bool progress() override { return false; }
  void look_after(Clock::time_point now, const fabric::Business& business) override;
  [[nodiscard]] bool arm() override { return true; }
  [[nodiscard]] std::vector<int> descriptors() const override;
  [[nodiscard]] std::optional<Clock::duration> sleep_limit(Clock::time_point now) const override;

 private:
  struct Rank {
    WorldRank rank;
    pid_t pid;
    SegmentView segment;
    UniqueFd exit_event;
    bool uses_services = false;
  };
  [[nodiscard]] bool has_left(Rank& rank, Clock::time_point now) const;

  std::vector<Rank> ranks_;
  std::vector<WorldRank> gone_;
  std::vector<UniqueFd> shown_;
  Clock::time_point began_;
  Clock::time_point looked_;
};

}  // namespace outrigger::service
