// A suspended coroutine as a node of an intrusive queue. The node is part of the awaitable, in the coroutine's frame:
// waiting allocates nothing, and destroying the coroutine removes it from its queue.
#pragma once

#include <coroutine>
#include <cstddef>

namespace outrigger::engine {

class Suspension {
 public:
  Suspension() = default;
  Suspension(const Suspension&) = delete;
  Suspension& operator=(const Suspension&) = delete;
  ~Suspension() { unlink(); }

  void unlink() {
    if (next_ == nullptr) return;
    prev_->next_ = next_;
    next_->prev_ = prev_;
    prev_ = next_ = nullptr;
  }

  std::coroutine_handle<> handle;

 private:
  friend class SuspensionQueue;
  Suspension* prev_ = nullptr;
  Suspension* next_ = nullptr;
};

// First in, first out. Owns nothing.
class SuspensionQueue {
 public:
  SuspensionQueue() { head_.prev_ = head_.next_ = &head_; }
  SuspensionQueue(const SuspensionQueue&) = delete;
  SuspensionQueue& operator=(const SuspensionQueue&) = delete;
  ~SuspensionQueue() {
    while (pop_front() != nullptr) {
    }
  }

  [[nodiscard]] bool empty() const { return head_.next_ == &head_; }

  // Moves the suspension here from its current queue.
  void push_back(Suspension& suspension) {
    suspension.unlink();
    suspension.prev_ = head_.prev_;
    suspension.next_ = &head_;
    head_.prev_->next_ = &suspension;
    head_.prev_ = &suspension;
  }

  [[nodiscard]] Suspension* pop_front() {
    if (empty()) return nullptr;
    Suspension* first = head_.next_;
    first->unlink();
    return first;
  }

  [[nodiscard]] std::size_t size() const {
    std::size_t count = 0;
    for (const Suspension* node = head_.next_; node != &head_; node = node->next_) ++count;
    return count;
  }

 private:
  Suspension head_;
};

}  // namespace outrigger::engine
