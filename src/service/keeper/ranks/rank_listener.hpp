// The keeper's listener for ranks. A connection must come from the keeper's own user, say hello within a few seconds,
// and know the job's secret; it is closed otherwise.
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

// A connection that has proven to be of the job.
struct NewRank {
  ControlSocket socket;
  pid_t pid = 0;  // from the kernel; 0: the process is not visible in this pid namespace
  HelloBody hello;
};

// Sends the reason and closes the socket.
void refuse(Events& events, ControlSocket& socket, const std::string& reason);

class RankListener {
 public:
  using Clock = std::chrono::steady_clock;

  RankListener(Events& events, UniqueFd listener, const Secret& secret);

  // Accepts waiting connections.
  void accept();
  // Reads from a pending connection. nullopt: hello is incomplete, or the connection was closed.
  [[nodiscard]] std::optional<NewRank> read(std::uint32_t connection);
  // Closes pending connections that have timed out.
  void expire(Clock::time_point now);
  [[nodiscard]] std::optional<Clock::time_point> deadline() const;
  // Stops listening; pending connections stay.
  void shut() { listener_.reset(); }
  void refuse_all(const std::string& reason);

 private:
  struct PendingConnection {
    ControlSocket socket;
    pid_t pid = 0;
    Clock::time_point deadline;
  };

  Events& events_;
  UniqueFd listener_;
  Secret secret_;
  std::unordered_map<std::uint32_t, PendingConnection> pending_;
  std::uint32_t next_number_ = 0;
};

}  // namespace outrigger::service
