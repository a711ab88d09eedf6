// All faults that the simulation can make.
#pragma once

#include "fabric/sim/random.hpp"

namespace outrigger::fabric::sim {

struct FaultOptions {
  // Time until a message arrives. Order is kept within a pair of service processes, not between pairs.
  Range message_delay_ns{1000, 1000};
  // A move copies chunks of this many bytes (at least 1), each after this delay.
  Range chunk_bytes{1, 4096};
  Range chunk_delay_ns{500, 500};
  // Chance that a prefix of a block is sent eagerly, after a chunk's delay. Other blocks are requested.
  double eager_chance = 0;
  // Time until a service process handles arrivals, and its chance to stall much longer instead.
  Range step_delay_ns{100, 100};
  double service_stall_chance = 0;
  Range service_stall_ns{0, 0};
  // Time between a rank's posts, and its chance to come very late.
  Range post_delay_ns{0, 1000};
  double late_post_chance = 0;
  Range late_post_ns{0, 0};
  // A rank's chance to pause before a post until nothing else happens.
  double absent_chance = 0;
  // Ranks may post different communicators in different orders.
  bool differing_post_orders = false;
  // Crashes of service processes in the whole run, their time, and the time until the restart.
  std::uint64_t most_crashes = 0;
  Range crash_time_ns{0, 0};
  Range restart_delay_ns{0, 0};
  Range reattach_delay_ns{0, 0};  // until each rank is replayed
  Range notice_delay_ns{0, 0};    // until each peer learns of the new incarnation, or a service process of a lost rank
  // Ranks lost in the whole run, and their time.
  std::uint64_t most_losses = 0;
  Range loss_time_ns{0, 0};
  // Wrong programs: sizes differ between sender and receiver, or ranks call different collectives.
  double differing_sizes_chance = 0;
  double differing_kinds_chance = 0;
};

[[nodiscard]] inline FaultOptions no_faults() {
  return {};
}

[[nodiscard]] inline FaultOptions delays() {
  FaultOptions faults;
  faults.message_delay_ns = {100, 50'000};
  faults.chunk_bytes = {1, 1024};
  faults.chunk_delay_ns = {10, 20'000};
  faults.eager_chance = 0.5;
  faults.step_delay_ns = {10, 2'000};
  faults.service_stall_chance = 0.02;
  faults.service_stall_ns = {10'000, 500'000};
  faults.post_delay_ns = {0, 20'000};
  faults.late_post_chance = 0.1;
  faults.late_post_ns = {50'000, 1'000'000};
  faults.absent_chance = 0.03;
  faults.differing_post_orders = true;
  return faults;
}

[[nodiscard]] inline FaultOptions crashes() {
  FaultOptions faults = delays();
  faults.most_crashes = 4;
  faults.crash_time_ns = {0, 600'000};
  faults.restart_delay_ns = {0, 200'000};
  faults.reattach_delay_ns = {0, 50'000};
  faults.notice_delay_ns = {0, 100'000};
  return faults;
}

[[nodiscard]] inline FaultOptions all_faults() {
  FaultOptions faults = crashes();
  faults.differing_sizes_chance = 0.1;
  faults.differing_kinds_chance = 0.05;
  return faults;
}

inline void add_losses(FaultOptions& faults) {
  faults.most_losses = 3;
  faults.loss_time_ns = {0, 600'000};
  faults.notice_delay_ns = {0, 100'000};
}

[[nodiscard]] inline FaultOptions losses() {
  FaultOptions faults = delays();
  add_losses(faults);
  return faults;
}

// Not part of all_faults(), whose seeds keep their meaning.
[[nodiscard]] inline FaultOptions all_and_losses() {
  FaultOptions faults = all_faults();
  add_losses(faults);
  return faults;
}

}  // namespace outrigger::fabric::sim
