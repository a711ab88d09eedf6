// A service process: one event loop that takes operations from its ranks, runs the engine and moves the bytes.
//
//   service       the loop: posts, messages, engine, ports, now and then the keeper
//   sleeper       how it sleeps
//   post_intake   what ranks post
//   core_policy   whether others take its core
//   steering_host what the coordinator of dispatch plans needs of it
//   wiring        ranks, peers, ports and engine, put together as the keeper says
//   pulse         by what its keeper sees that it gets on
//   keeper_link   the keeper, and how a service process ends
//   orphanage     without a keeper
//   overdue_watch whether operations can end
//   own_watch     that it does not hang then
//
// No threads, no locks, but for own_watch. What goes in and out goes by ports (fabric/port.hpp), of which the loop
// knows no more.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/unique_fd.hpp"
#include "fabric/host/host_fabric.hpp"
#include "fabric/port.hpp"
#include "service/loop/keeper_link.hpp"
#include "service/loop/orphanage.hpp"
#include "service/loop/overdue_watch.hpp"
#include "service/loop/own_watch.hpp"
#include "service/loop/post_intake.hpp"
#include "service/loop/pulse.hpp"
#include "service/loop/sleeper.hpp"
#include "service/loop/wiring.hpp"

namespace outrigger::service {

// Thread rule: everything on one thread, which calls run().
class Service {
 public:
  // `control`: this end of the socket pair to the keeper, which starts by sending `configure`.
  explicit Service(UniqueFd control);
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Serves until the keeper says that the job is over, or has died and the last rank is gone (0), or something is
  // broken that cannot be answered to a rank (not 0; the keeper has been told why).
  [[nodiscard]] int run();

 private:
  using Clock = fabric::Port::Clock;

  // Each true when there was anything.
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
  Pulse pulse_;
  Orphanage orphanage_;
  Wiring wiring_{keeper_, host_, ports_, plans_, posts_, core_, sleeper_, pulse_, orphanage_};
  OverdueWatch overdue_{[this] { return wiring_.engine(); }};
  fabric::Business business_;
  std::vector<std::byte> message_;  // kept for its memory
  Clock::time_point control_read_;
  std::uint32_t turns_ = 0;
  bool alone_ = false;  // without a keeper
  OwnWatch own_watch_;
};

}  // namespace outrigger::service
