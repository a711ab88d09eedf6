// How a keeper gets its service processes; tests have theirs as threads.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "service/keeper/supervise/captured_stderr.hpp"

namespace outrigger::service {

struct StartedService {
  UniqueFd control;     // the keeper's end of a SOCK_SEQPACKET pair
  UniqueFd exit_event;  // becomes readable when the process ends; invalid for threads, whose control closes
  pid_t pid = 0;        // 0 for threads
};

// Used by the keeper's thread only.
class ServiceStarter {
 public:
  ServiceStarter() = default;
  ServiceStarter(const ServiceStarter&) = delete;
  ServiceStarter& operator=(const ServiceStarter&) = delete;
  virtual ~ServiceStarter() = default;

  // Starts number `sp`: the next one, counted from 0, or again one that has ended.
  [[nodiscard]] virtual Result<StartedService> start(std::uint32_t sp) = 0;
  // Whether a signal has stopped it (SIGSTOP) and it has not been let go on since.
  [[nodiscard]] virtual bool is_stopped(std::uint32_t sp) = 0;
  // Becomes readable when that may have changed; the starter's own, and -1 for threads.
  [[nodiscard]] virtual int state_event() const = 0;
  // Takes what has made it readable.
  virtual void clear_state_event() = 0;
  // After exit_event or the end of control: "was killed by signal 9 (Killed)", "exited with status 1", ...; with what
  // it has said last on standard error.
  [[nodiscard]] virtual std::string how_it_ended(std::uint32_t sp) = 0;
  // After how_it_ended(): by a signal?
  [[nodiscard]] virtual bool was_killed(std::uint32_t /*sp*/) const { return false; }
  // Number `from`, the last one, is number `to` from now on, which has ended.
  virtual void renumber(std::uint32_t /*from*/, std::uint32_t /*to*/) {}
  // Ends them all and waits for them. Their control sockets have been closed by the keeper.
  virtual void stop_all() = 0;
};

// Children of this process that run `outriggerd serve` and end with it, until they see to it that they do not. Takes
// SIGCHLD for itself, blocked in the thread that makes it: a program of one thread.
class ProcessStarter final : public ServiceStarter {
 public:
  // `daemon_path`: the program; empty: the one that is running, also once another one has its name.
  explicit ProcessStarter(std::string daemon_path = {});
  ~ProcessStarter() override;
  [[nodiscard]] Result<StartedService> start(std::uint32_t sp) override;
  [[nodiscard]] bool is_stopped(std::uint32_t sp) override;
  [[nodiscard]] int state_event() const override { return state_event_.get(); }
  void clear_state_event() override;
  [[nodiscard]] std::string how_it_ended(std::uint32_t sp) override;
  [[nodiscard]] bool was_killed(std::uint32_t sp) const override { return children_[sp].killed; }
  void renumber(std::uint32_t from, std::uint32_t to) override;
  void stop_all() override;

 private:
  struct Child {
    pid_t pid = -1;  // -1 once reaped
    bool stopped = false;
    bool killed = false;  // by a signal
    CapturedStderr captured_stderr;
  };

  // Collects those that have ended.
  [[nodiscard]] bool any_runs();

  std::string daemon_path_;
  std::vector<Child> children_;
  UniqueFd state_event_;  // signalfd
};

}  // namespace outrigger::service
