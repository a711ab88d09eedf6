// Keepers of other jobs with cores in common: each notices while it runs when another one comes or goes.
//
//   later keeper                           earlier keeper
//    | claims its cores, sees whose they    |  listens at "outrigger-keeper:SCOPE:JOB:PID" before its first claim
//    | are, too, and connects ------------->|  accepts: it is time to look at the claims again
//    |    (nothing is ever said; the        |
//    |     connection stays)                |
//    | ends, even by kill -9 -------------->|  it is time to look again
//    |<------------------------------------ | or this one ends
//
// Of two that start at once each has claimed before it looks, so that one at least sees the other, and the other hears
// of it. A name, like those of claims, is in the abstract namespace and goes with its process; anybody may connect, and
// can do no more by it than make this keeper look: 20 times a second at most, with a limit on how many stay. Whoever
// says something is sent away.
//
// Without other jobs nothing here wakes anybody. Claims whose keeper cannot be reached (that of an `outrigger run`,
// that of one that is just ending) are looked at some more times, for some seconds, then no more.
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

  // `events` must outlive this. Whose events are Source::neighbour.
  Neighbours(Claimant claimant, Events& events) : claimant_(std::move(claimant)), events_(events) {}
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;
  ~Neighbours() { close(); }

  // Before the first claim: who sees that can come.
  void open();
  // Of other jobs, on cores that this one has: those are told that it is here, each once.
  void meet(const std::vector<CoreClaim>& claims);
  // Of Source::neighbour: somebody has come or gone.
  void hear();
  // True once for each time that it is time to look at the claims, and to meet() what is found.
  [[nodiscard]] bool time_to_look(Clock::time_point now);
  [[nodiscard]] std::optional<Clock::time_point> next_look() const { return next_look_; }
  void close();

 private:
  static constexpr int kLooks = 8;  // after news, each twice as long after the one before

  void watch_door();
  void accept();
  [[nodiscard]] bool drop_gone(UniqueFd& link);
  void look_soon(Clock::duration in);

  Claimant claimant_;
  Events& events_;
  UniqueFd door_;
  std::vector<UniqueFd> guests_;
  // By name; one that has gone stays, without a connection, as long as its claims do.
  std::map<std::string, UniqueFd> hosts_;
  std::optional<Clock::time_point> next_look_;
  int looks_left_ = kLooks;
};

}  // namespace outrigger::service
