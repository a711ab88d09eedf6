// A way in or out of a service process, as its loop sees it: the rings between service processes of a node, the node's
// memory, a DPU's remote ranks, or the wire between nodes. The loop drives all ports, takes their messages, and asks
// them before it sleeps.
//
// Thread rule: one thread. Nothing here blocks.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "protocol/ids.hpp"

namespace outrigger::fabric {

// The reason why this process cannot continue.
struct PortFailure {
  enum class Of : std::uint8_t {
    process,     // neither it nor a replacement could: the job ends
    other_node,  // the other node is lost: the job ends
    connection,  // to a live process. A replacement of this process connects again
  };
  std::string reason;
  Of of = Of::process;
};

// Tells if a service process needs its peers, and they need it.
struct Business {
  bool posted = false;                    // by ranks, since the last call
  std::function<bool()> operations_open;  // counts when it is called
};

class Port {
 public:
  using Clock = std::chrono::steady_clock;

  Port() = default;
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // These run in each turn of the loop: no allocation, system call or clock without work.
  //
  // Drives input and output, and calls back for ended operations. False if there was nothing to do.
  virtual bool progress() = 0;
  // The next message of another service process, by its number in the job. False: none in this turn.
  [[nodiscard]] virtual bool receive(SpId& /*from*/, std::vector<std::byte>& /*message*/) { return false; }
  // Output has reached its limit: the loop takes no more posts. Messages that follow from earlier posts are still
  // accepted.
  [[nodiscard]] virtual bool backlogged() const { return false; }

  // Every few turns, and before each sleep.
  virtual void look_after(Clock::time_point /*now*/, const Business& /*business*/) {}
  // Checked then; nullptr if there is none. A failure is permanent.
  [[nodiscard]] virtual const PortFailure* failure() const { return nullptr; }

  // Sleeping: the loop calls may_sleep() every few turns until all ports agree, then arm(). If all still agree, it
  // blocks until a descriptor is readable or a sleep_limit() is over. wake_up() undoes both calls.
  //
  // Readable when something has come since arm(). Constant while the port lives.
  [[nodiscard]] virtual std::vector<int> descriptors() const { return {}; }
  // Starts to notify ranks and peers that they must ring from now on. True: all know, or need not.
  [[nodiscard]] virtual bool may_sleep() { return true; }
  // A last check. True: there is nothing to do, and new work makes a descriptor readable or rings the service process's
  // doorbell.
  [[nodiscard]] virtual bool arm() = 0;
  // The loop runs again.
  virtual void wake_up() {}
  // nullopt: progress() need not be called before something has come.
  [[nodiscard]] virtual std::optional<Clock::duration> sleep_limit(Clock::time_point /*now*/) const { return {}; }
  // Has events without notification: it is polled for a while before each sleep, even if ranks want the core.
  [[nodiscard]] virtual bool must_poll() const { return false; }
  // If polling costs ranks their core: time for which this port may be left alone. Called once a sleep.
  [[nodiscard]] virtual std::chrono::microseconds pause(Clock::time_point /*now*/) { return {}; }

 protected:
  ~Port() = default;
};

// In the order of their turns.
using Ports = std::vector<std::reference_wrapper<Port>>;

}  // namespace outrigger::fabric
