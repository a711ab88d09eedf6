// Keepers of jobs that share cores: each notices when another one starts or ends.
//
//   later keeper                           earlier keeper
//   | claims its cores, sees the claims    |  listens at "outrigger-keeper:SCOPE:JOB:PID" before its first claim
//   | of others, and connects ------------>|  accepts: looks at the claims again
//   |    (nothing is ever sent; the        |
//   |     connection stays)                |
//   | ends, even by kill -9 -------------->|  looks again
//   |<------------------------------------ | or this one ends
//
// If two start at once, each claims before it looks, so at least one sees the other and connects. The name, like those
// of claims, is in the abstract namespace and ends with its process. Anybody may connect, but can only make this keeper
// look: at most 20 times a second, with a limited number of connections. A connection that sends something is closed.
//
// Without other jobs nothing here wakes the keeper. Claims whose keeper cannot be reached (of an `outrigger run`, or of
// a keeper that is ending) are looked at again for some seconds.
//
// Thread rule: one thread.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "service/keeper/events.hpp"
#include "service/placement/core_claims.hpp"

namespace outrigger::service {

class Neighbours {
 public:
  using Clock = std::chrono::steady_clock;

  // `events` must outlive this; its events are Source::neighbour.
  Neighbours(Claimant claimant, Events& events) : claimant_(std::move(claimant)), events_(events) {}
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;
  ~Neighbours() { close(); }

  // Before the first claim, so that those who see the claim can connect.
  void open();
  // `claims`: of other jobs on cores of this one. Tells each of their keepers once that this one is here.
  void meet(const std::vector<CoreClaim>& claims);
  // An event of Source::neighbour: a connection opens or closes.
  void handle_event();
  // True once whenever the claims should be read and passed to meet().
  [[nodiscard]] bool time_to_look(Clock::time_point now);
  [[nodiscard]] std::optional<Clock::time_point> next_look() const { return next_look_; }
  void close();

 private:
  static constexpr int kLooks = 8;  // after news, with doubling intervals

  void watch_listener();
  void accept();
  [[nodiscard]] bool drop_gone(UniqueFd& link);
  void look_soon(Clock::duration in);

  Claimant claimant_;
  Events& events_;
  UniqueFd listener_;
  std::vector<UniqueFd> incoming_;
  // By name; a closed one stays, without a connection, as long as its claims do.
  std::map<std::string, UniqueFd> outgoing_;
  std::optional<Clock::time_point> next_look_;
  int looks_left_ = kLooks;
};

}  // namespace outrigger::service
