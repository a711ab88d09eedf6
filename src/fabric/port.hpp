// A way in or out of a service process, as its loop sees it: the rings between service processes of a node, the node's
// memory, a DPU's remote ranks, the wire between nodes. The loop lets each get on, hands on what comes by it, and asks
// it before it sleeps; it knows no more of any.
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

// Why this process cannot go on.
struct PortFailure {
  enum class Of : std::uint8_t {
    process,     // it cannot, nor could another one in its place: the job ends
    other_node,  // which is lost: the job ends
    connection,  // to a process that lives. One in the place of this one connects anew
  };
  std::string reason;
  Of of = Of::process;
};

// Whether a service process needs others, and others it.
struct Business {
  bool posted = false;                    // by ranks, since the last time
  std::function<bool()> operations_open;  // counts when it is asked
};

class Port {
 public:
  using Clock = std::chrono::steady_clock;

  Port() = default;
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // Each turn of the loop: no allocation, no system call, no clock where there is nothing to do.
  //
  // Lets what goes in and out get on, and tells callers what has ended. True: anything was done.
  virtual bool progress() = 0;
  // The next message of another service process, by its number in the job. False: none for this turn.
  [[nodiscard]] virtual bool receive(SpId& /*from*/, std::vector<std::byte>& /*message*/) { return false; }
  // What is to go out has reached its limit: the loop takes no further posts. What follows from earlier ones still
  // goes.
  [[nodiscard]] virtual bool backlogged() const { return false; }

  // Every few turns, and before each sleep.
  virtual void look_after(Clock::time_point /*now*/, const Business& /*business*/) {}
  // Looked at then; null: none. Once there, it stays.
  [[nodiscard]] virtual const PortFailure* failure() const { return nullptr; }

  // Sleeping: may_sleep(), every few turns until all ports agree; then arm(), and if all still do, the loop blocks
  // until one of the descriptors is readable or a sleep_limit() is over. wake_up() ends what either of the two has
  // begun.
  //
  // Readable when something has come since arm(). The same as long as the port lives.
  [[nodiscard]] virtual std::vector<int> descriptors() const { return {}; }
  // Begins to tell those who post or send that they must ring from now on. True: all know, or need not.
  [[nodiscard]] virtual bool may_sleep() { return true; }
  // One more look. True: there is nothing to do, and whoever brings something makes a descriptor readable or rings the
  // service process's doorbell.
  [[nodiscard]] virtual bool arm() = 0;
  // The loop works (again).
  virtual void wake_up() {}
  // Nothing: progress() need not be called before something has come.
  [[nodiscard]] virtual std::optional<Clock::duration> sleep_limit(Clock::time_point /*now*/) const { return {}; }
  // Waits for what nobody tells of: it is looked at for a while before each sleep, even where ranks want the core.
  [[nodiscard]] virtual bool must_poll() const { return false; }
  // Where looking costs ranks their core: how long to leave this alone though something may come. Asked once a sleep.
  [[nodiscard]] virtual std::chrono::microseconds pause(Clock::time_point /*now*/) { return {}; }

 protected:
  ~Port() = default;
};

// In the order in which they have their turns.
using Ports = std::vector<std::reference_wrapper<Port>>;

}  // namespace outrigger::fabric
