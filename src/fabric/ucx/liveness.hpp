// Whether the peers that there is business with still live: asked for signs of life where none come by themselves.
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

  // As Port's: a tick() a second, interested for some seconds after the last business or move.
  void look_after(Clock::time_point now, const Business& business, bool moves);
  [[nodiscard]] std::optional<Clock::duration> sleep_limit(Clock::time_point now) const;
  // `interested`: something is open that needs others.
  void tick(bool interested);

 private:
  // False: it is lost.
  [[nodiscard]] bool look_at(Peer& peer, bool interested);

  const WireOptions& options_;
  Peers& peers_;
  Channels& channels_;
  Clock::time_point ticked_;
  std::uint32_t ticks_left_ = 0;  // with interest
};

}  // namespace outrigger::fabric::ucx
