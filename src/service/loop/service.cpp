#include "service/loop/service.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "protocol/wire/peer_messages.hpp"
#include "service/notices/log.hpp"

namespace outrigger::service {
namespace {

constexpr std::uint32_t kTurnsPerClock = 16;  // turns between reads of the clock
constexpr std::chrono::microseconds kControlInterval{200};
constexpr std::chrono::microseconds kBetweenLooksForRest{50};
constexpr std::chrono::milliseconds kBetweenLooksForHost{5};

std::uint32_t concern_of(const fabric::PortFailure& failure) {
  switch (failure.of) {
    case fabric::PortFailure::Of::other_node: return kOtherNode;
    case fabric::PortFailure::Of::connection: return kBeginAnew;
    case fabric::PortFailure::Of::process: break;
  }
  return kWholeJob;
}

// A remote rank may be the first of its group.
void note_arrival(Lateness& lateness, std::span<const std::byte> message) {
  if (!lateness.listens()) return;
  if (const auto operation = peer::announced(message)) {
    lateness.announced(*operation, time_on(CLOCK_MONOTONIC).count());
  }
}

}  // namespace

Service::Service(UniqueFd control) : keeper_(std::move(control)) {
  posts_.show_in(heartbeat_);
  ports_.emplace_back(overdue_);
  business_.operations_open = [this] {
    const engine::Engine* engine = wiring_.engine();
    return engine != nullptr && engine->open_operations() != 0;
  };
}

int Service::run() {
  while (!keeper_.ended()) {
    heartbeat_.beat();
    if (!heartbeat_.may_work()) {
      std::this_thread::sleep_for(kBetweenLooksForHost);
      read_control(Clock::now());
      continue;
    }
    if (turn()) {
      sleeper_.stay_awake();
    } else if (wiring_.engine() != nullptr && sleeper_.must_sleep_now()) {
      const Clock::time_point now = Clock::now();
      look_after_ports(now);
      if (keeper_.ended()) break;
      {
        const Heartbeat::Asleep asleep(heartbeat_);
        sleeper_.sleep_now(now);
      }
      read_control(Clock::now());
      continue;
    } else {
      sleeper_.spin();
    }
    if (++turns_ % kTurnsPerClock == 0 || wiring_.engine() == nullptr) look_around(Clock::now());
  }
  wiring_.leave();
  return keeper_.failed() ? 1 : 0;
}

bool Service::turn() {
  bool worked = false;
  if (engine::Engine* engine = wiring_.engine()) {
    const auto backlogged = [](const fabric::Port& port) { return port.backlogged(); };
    worked = std::ranges::none_of(ports_, backlogged) && posts_.take();
    for (fabric::Port& port : ports_) worked |= take_messages(port);
    worked |= engine->run();
  }
  for (fabric::Port& port : ports_) worked |= port.progress();
  remove_misbehaved();
  return worked;
}

bool Service::take_messages(fabric::Port& port) {
  bool any = false;
  for (SpId from; port.receive(from, message_); any = true) {
    note_arrival(lateness_, message_);
    const bool for_coordinator = peer::is_for_coordinator(message_);
    const bool understood =
        for_coordinator ? wiring_.coordinator()->receive(from, message_) : wiring_.engine()->receive(from, message_);
    if (understood) continue;
    keeper_.fail("service process " + std::to_string(from.value()) + " sent a malformed message");
    return true;
  }
  return any;
}

void Service::remove_misbehaved() {
  for (const PostIntake::Misbehaved& one : posts_.take_misbehaved()) {
    keeper_.report_fault(one.rank, one.reason);
    wiring_.remove_rank(one.rank);
  }
}

bool Service::read_control(Clock::time_point now) {
  control_read_ = now;
  bool any = false;
  while (std::optional<ControlMessage> message = keeper_.next()) {
    wiring_.handle(*message);
    any = true;
  }
  if (keeper_.closed() && !alone_) keeper_died(now);
  return any;
}

// Before it works there is nothing to continue.
void Service::keeper_died(Clock::time_point now) {
  alone_ = true;
  if (keeper_.ended()) return;
  if (wiring_.engine() == nullptr || !keeperless_.begin(now)) return keeper_.lose();
  spdlog::warn("the keeper is gone (killed?): this service process continues without it");
  sleeper_.forget_control();
  ports_.emplace_back(keeperless_);
  sleeper_.watch(keeperless_);
  if (const ServiceHeartbeat* heartbeat = heartbeat_.shown()) own_watch_.begin(*heartbeat, sleeper_.doorbell());
}

// Handles ports and the keeper now and then; sleeps after a while without work.
void Service::look_around(Clock::time_point now) {
  look_after_ports(now);
  if (keeper_.ended()) return;
  if (wiring_.waits_for_rest()) {
    std::this_thread::sleep_for(kBetweenLooksForRest);
    wiring_.start_engine_when_complete();
    read_control(now);
  } else if (wiring_.engine() == nullptr) {
    {
      const Heartbeat::Asleep asleep(heartbeat_);
      sleeper_.sleep_until_message(now);
    }
    read_control(now);
  } else if (now - control_read_ > kControlInterval && read_control(now)) {
    sleeper_.stay_awake();  // its message may have made work for the engine
  } else if (sleeper_.may_sleep(now)) {
    {
      const Heartbeat::Asleep asleep(heartbeat_);
      (void)sleeper_.sleep(now);
    }
    read_control(Clock::now());
  }
}

void Service::look_after_ports(Clock::time_point now) {
  business_.posted = posts_.has_taken();
  for (fabric::Port& port : ports_) {
    port.look_after(now, business_);
    if (const fabric::PortFailure* failure = port.failure()) {
      return keeper_.fail(failure->reason, concern_of(*failure));
    }
  }
  wiring_.report_attached();
  for (const WorldRank rank : keeperless_.take_gone()) wiring_.remove_rank(rank);
  if (alone_ && keeperless_.empty()) keeper_.lose();
}

}  // namespace outrigger::service
