// The one lock of an endpoint, and the word that its life is over.
//
// The lock guards the state of all parts of an endpoint. It is held for a few hundred nanoseconds, longer only when
// argument memory grows, and never while somebody waits for another process. Each part says of its members which of
// these they are:
//
//   under the lock    the caller holds it
//   without the lock  the caller does not: they take it themselves, and may wait for the keeper in between
//   any thread        they touch constants, atomics, or what has a lock of its own
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
