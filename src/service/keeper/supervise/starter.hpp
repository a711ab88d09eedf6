// Starts a keeper's service processes; tests start threads instead.
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
  UniqueFd exit_event;  // becomes readable when the process ends; invalid for threads, whose control socket closes
  pid_t pid = 0;        // 0 for threads
};

// Used by the keeper's thread only.
class ServiceStarter {
 public:
  ServiceStarter() = default;
  ServiceStarter(const ServiceStarter&) = delete;
  ServiceStarter& operator=(const ServiceStarter&) = delete;
  virtual ~ServiceStarter() = default;

  // Starts number `sp`: the next one, counted from 0, or one that has ended.
  [[nodiscard]] virtual Result<StartedService> start(std::uint32_t sp) = 0;
  // True while a signal (SIGSTOP) has stopped it.
  [[nodiscard]] virtual bool is_stopped(std::uint32_t sp) = 0;
  // Becomes readable when is_stopped() may have changed. Owned by the starter; -1 for threads.
  [[nodiscard]] virtual int state_event() const = 0;
  // Clears state_event().
  virtual void clear_state_event() = 0;
  // After exit_event or the end of control: "was killed by signal 9 (Killed)", "exited with status 1", ...; with
  // captured stderr.
  [[nodiscard]] virtual std::string how_it_ended(std::uint32_t sp) = 0;
  // After how_it_ended(): true if by a signal.
  [[nodiscard]] virtual bool was_killed(std::uint32_t /*sp*/) const { return false; }
  // Number `from`, the last one, becomes number `to`, which has ended.
  virtual void renumber(std::uint32_t /*from*/, std::uint32_t /*to*/) {}
  // Ends all and waits for them. The keeper has closed their control sockets.
  virtual void stop_all() = 0;
};

// Starts `outriggerd serve` as child processes, which end with this one until they clear that themselves. Takes over
// SIGCHLD, blocked in the constructing thread: only for programs with one thread.
class ProcessStarter final : public ServiceStarter {
 public:
  // `daemon_path`: the program; empty: the running one, even if its file has been replaced.
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

  // Reaps ended children.
  [[nodiscard]] bool any_runs();

  std::string daemon_path_;
  std::vector<Child> children_;
  UniqueFd state_event_;  // signalfd
};

}  // namespace outrigger::service
