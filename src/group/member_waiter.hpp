// How a member waits for the others of its node in a collective: not for ever, and not for one that has died.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "group/layout.hpp"
#include "group/member_watch.hpp"
#include "intranode/waiter.hpp"

namespace outrigger::group {

class MemberWaiter final : public intranode::Waiter {
 public:
  // `layout` and `watch` outlive it.
  MemberWaiter(const intranode::WaitPolicy& policy, const Layout& layout, MemberWatch& watch);
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ms_.store(timeout.count(), std::memory_order_relaxed); }
  [[nodiscard]] std::chrono::milliseconds timeout() const {
    return std::chrono::milliseconds(timeout_ms_.load(std::memory_order_relaxed));
  }

 protected:
  // Sets the group's failure where it ends the wait.
  bool overdue(const intranode::Late& late) override;

 private:
  const Layout& layout_;
  MemberWatch& watch_;
  std::atomic<std::int64_t> timeout_ms_{1800'000};
};

}  // namespace outrigger::group
