// The one lock of an endpoint, and the flag that ends its use.
//
// The lock guards the state of all parts of an endpoint. It is held for a few hundred nanoseconds, longer only when
// argument memory grows, and never while a thread waits for another process. The comments of members name three cases:
//
//   `under the lock`    The caller holds it.
//   `without the lock`  The caller does not hold it. The function takes it, and may wait for the keeper without it.
//   `any thread`        The function uses constants, atomics, or objects with their own lock.
//
// The control channel has a lock of its own, which is taken under this one only by attempts that do not wait.
#pragma once

#include <atomic>
#include <mutex>

#include "base/futex_lock.hpp"

namespace outrigger::client {

using Lock = std::unique_lock<FutexLock>;

struct EndpointLock {
  FutexLock mutex;
  // Nothing shared is touched any more: the client is gone, or this is a forked child.
  std::atomic<bool> inert{false};

  [[nodiscard]] bool is_inert() const { return inert.load(std::memory_order_acquire); }
};

}  // namespace outrigger::client
