// Detects dead peers among those that are in use; sends pings to silent ones.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <optional>

#include "fabric/port.hpp"
#include "fabric/ucx/channels.hpp"

namespace outrigger::fabric::ucx {

class Liveness {
 public:
  Liveness(const WireOptions& options, Peers& peers, Channels& channels)
      : options_(options), peers_(peers), channels_(channels) {}

  using Clock = Port::Clock;

  // See Port. Calls tick() once a second, with `interested` for some seconds after the last post or move.
  void look_after(Clock::time_point now, const Business& business, bool moves);
  [[nodiscard]] std::optional<Clock::duration> sleep_limit(Clock::time_point now) const;
  // `interested`: something that is open needs peers.
  void tick(bool interested);

 private:
  // False: the peer is lost.
  [[nodiscard]] bool look_at(Peer& peer, bool interested);

  const WireOptions& options_;
  Peers& peers_;
  Channels& channels_;
  Clock::time_point ticked_;
  std::uint32_t ticks_left_ = 0;  // with interest
};

}  // namespace outrigger::fabric::ucx
