// The keeper's door: who connects must be of the keeper's own user, say hello within a few seconds, and know the job's
// secret. Everybody else is sent away.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "protocol/wire/control.hpp"
#include "service/keeper/events.hpp"

namespace outrigger::service {

// Someone who has proven to be of the job.
struct Visitor {
  ControlSocket socket;
  pid_t pid = 0;  // as the kernel says; 0: of a process that this one does not see
  HelloBody hello;
};

// Says why, and closes the socket.
void refuse(Events& events, ControlSocket& socket, const std::string& reason);

class Door {
 public:
  using Clock = std::chrono::steady_clock;

  Door(Events& events, UniqueFd listener, const Secret& secret);

  // Lets strangers in who wait outside.
  void accept();
  // What this one says. Nothing: not yet, or it was sent away.
  [[nodiscard]] std::optional<Visitor> hear(std::uint32_t stranger);
  // Sends those away who have had their time.
  void expire(Clock::time_point now);
  [[nodiscard]] std::optional<Clock::time_point> deadline() const;
  // Nobody else is expected; who is in may still speak.
  void shut() { listener_.reset(); }
  void refuse_all(const std::string& reason);

 private:
  struct Stranger {
    ControlSocket socket;
    pid_t pid = 0;
    Clock::time_point deadline;
  };

  Events& events_;
  UniqueFd listener_;
  Secret secret_;
  std::unordered_map<std::uint32_t, Stranger> strangers_;
  std::uint32_t next_stranger_ = 0;
};

}  // namespace outrigger::service
