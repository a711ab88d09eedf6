// Events in virtual time, earliest first, those of one time in the order they were made.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace outrigger::fabric::sim {

class VirtualTime {
 public:
  using Action = std::function<void()>;

  [[nodiscard]] std::uint64_t now_ns() const { return now_ns_; }
  [[nodiscard]] bool empty() const { return events_.empty(); }

  void at(std::uint64_t time_ns, Action action) {
    events_.push(Event{time_ns < now_ns_ ? now_ns_ : time_ns, next_order_++, std::move(action)});
  }
  void after(std::uint64_t delay_ns, Action action) { at(now_ns_ + delay_ns, std::move(action)); }

  // Runs the next event. False when there is none.
  bool step() {
    if (events_.empty()) return false;
    Action action = std::move(const_cast<Event&>(events_.top()).action);  // NOLINT: popped at once
    now_ns_ = events_.top().time_ns;
    events_.pop();
    action();
    return true;
  }

 private:
  struct Event {
    std::uint64_t time_ns;
    std::uint64_t order;
    Action action;
    bool operator<(const Event& other) const {
      return time_ns != other.time_ns ? time_ns > other.time_ns : order > other.order;
    }
  };
  std::priority_queue<Event> events_;
  std::uint64_t now_ns_ = 0;
  std::uint64_t next_order_ = 0;
};

}  // namespace outrigger::fabric::sim
