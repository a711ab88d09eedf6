// A service process: one event loop that takes operations from its ranks, runs the engine and moves the bytes.
//
//   service         the loop: posts, messages, engine, ports, now and then the keeper
//   sleeper         how it sleeps
//   post_intake     posts of ranks
//   core_policy     detects that others use its core
//   steering_host   plans and messages for the coordinator of dispatch plans
//   wiring          ranks, peers, ports and engine, put together as the keeper says
//   heartbeat       shows the keeper that it makes progress
//   keeper_link     the keeper, and how a service process ends
//   keeperless_mode continues without a keeper
//   overdue_watch   checks operations that wait long
//   own_watch       watchdog without a keeper
//
// No threads and no locks, except own_watch. All input and output goes through ports (fabric/port.hpp); the loop knows
// nothing else of the fabrics.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/unique_fd.hpp"
#include "fabric/host/host_fabric.hpp"
#include "fabric/port.hpp"
#include "service/loop/heartbeat.hpp"
#include "service/loop/keeper_link.hpp"
#include "service/loop/keeperless_mode.hpp"
#include "service/loop/overdue_watch.hpp"
#include "service/loop/own_watch.hpp"
#include "service/loop/post_intake.hpp"
#include "service/loop/sleeper.hpp"
#include "service/loop/wiring.hpp"

namespace outrigger::service {

// Thread rule: everything on the thread that calls run().
class Service {
 public:
  // `control`: this end of the socket pair to the keeper, which first sends `configure`.
  explicit Service(UniqueFd control);
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Serves until the keeper ends the job, or until the keeper is dead and the last rank has detached: 0. Not 0 for an
  // error that cannot be reported to a rank; the reason has been sent to the keeper.
  [[nodiscard]] int run();

 private:
  using Clock = fabric::Port::Clock;

  // True if there was any work.
  [[nodiscard]] bool turn();
  [[nodiscard]] bool take_messages(fabric::Port& port);
  bool read_control(Clock::time_point now);
  void remove_misbehaved();
  void look_around(Clock::time_point now);
  void look_after_ports(Clock::time_point now);
  void keeper_died(Clock::time_point now);

  KeeperLink keeper_;
  fabric::HostFabric host_;
  fabric::Ports ports_;
  SteeringHost plans_{host_};
  CorePolicy core_;
  Lateness lateness_;
  PostIntake posts_{host_, plans_, lateness_};
  Sleeper sleeper_{keeper_.fd(), ports_, posts_};
  Heartbeat heartbeat_;
  KeeperlessMode keeperless_;
  Wiring wiring_{keeper_, host_, ports_, plans_, posts_, core_, sleeper_, heartbeat_, keeperless_};
  OverdueWatch overdue_{[this] { return wiring_.engine(); }};
  fabric::Business business_;
  std::vector<std::byte> message_;  // member to reuse its memory
  Clock::time_point control_read_;
  std::uint32_t turns_ = 0;
  bool alone_ = false;  // without a keeper
  OwnWatch own_watch_;
};

}  // namespace outrigger::service
