// Events in virtual time, earliest first; events of the same time in the order of their creation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace outrigger::fabric::sim {

class VirtualTime {
 public:
  using Action = std::function<void()>;

  [[nodiscard]] std::uint64_t now_ns() const { return now_ns_; }
  [[nodiscard]] bool empty() const { return events_.empty(); }

  void at(std::uint64_t time_ns, Action action) {
    std::uint32_t place = static_cast<std::uint32_t>(actions_.size());
    if (free_.empty()) {
      actions_.push_back(std::move(action));
    } else {
      place = free_.back();
      free_.pop_back();
      actions_[place] = std::move(action);
    }
    events_.push_back(Event{time_ns < now_ns_ ? now_ns_ : time_ns, next_order_++, place});
    std::push_heap(events_.begin(), events_.end());
  }
  void after(std::uint64_t delay_ns, Action action) { at(now_ns_ + delay_ns, std::move(action)); }

  // Runs the next event. False if there is none.
  bool step() {
    if (events_.empty()) return false;
    std::pop_heap(events_.begin(), events_.end());
    const Event next = events_.back();
    events_.pop_back();
    const Action action = std::exchange(actions_[next.place], nullptr);
    free_.push_back(next.place);
    now_ns_ = next.time_ns;
    action();
    return true;
  }

 private:
  struct Event {
    std::uint64_t time_ns;
    std::uint64_t order;
    std::uint32_t place;  // index of its action, which does not move when events are sorted
    bool operator<(const Event& other) const {
      return time_ns != other.time_ns ? time_ns > other.time_ns : order > other.order;
    }
  };
  std::vector<Event> events_;  // a heap
  std::vector<Action> actions_;
  std::vector<std::uint32_t> free_;
  std::uint64_t now_ns_ = 0;
  std::uint64_t next_order_ = 0;
};

}  // namespace outrigger::fabric::sim
