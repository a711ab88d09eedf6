// The only place that resumes coroutines. The stack stays flat, and no state changes inside the code that made a
// coroutine ready.
#pragma once

#include <cassert>
#include <coroutine>
#include <cstdint>

#include "engine/core/suspension.hpp"

namespace outrigger::engine {

class Scheduler {
 public:
  void make_ready(Suspension& suspension) { ready_.push_back(suspension); }

  [[nodiscard]] bool idle() const { return ready_.empty(); }

  // Resumes all ready coroutines. False if there were none.
  bool run() {
    bool ran = false;
    while (Suspension* suspension = ready_.pop_front()) {
      suspension->handle.resume();
      ran = true;
    }
    return ran;
  }

 private:
  SuspensionQueue ready_;
};

// One coroutine waits here until notified. Notifications without a waiter are lost.
class Signal {
 public:
  explicit Signal(Scheduler& scheduler) : scheduler_(scheduler) {}

  void wait(Suspension& suspension) { waiting_.push_back(suspension); }
  // True if a coroutine waited.
  bool notify() {
    Suspension* suspension = waiting_.pop_front();
    if (suspension != nullptr) scheduler_.make_ready(*suspension);
    return suspension != nullptr;
  }

 private:
  Scheduler& scheduler_;
  SuspensionQueue waiting_;
};

// Awaited by one coroutine: all of a number of tasks have ended.
class Countdown {
 public:
  Countdown(Scheduler& scheduler, std::uint32_t count) : done_(scheduler), left_(count) {}

  void count() {
    assert(left_ != 0 && "each ends once");
    if (--left_ == 0) done_.notify();
  }

  class Done : private Suspension {
   public:
    explicit Done(Countdown& countdown) : countdown_(countdown) {}
    [[nodiscard]] bool await_ready() const { return countdown_.left_ == 0; }
    void await_suspend(std::coroutine_handle<> waiter) {
      handle = waiter;
      countdown_.done_.wait(*this);
    }
    void await_resume() const {}

   private:
    Countdown& countdown_;
  };
  [[nodiscard]] Done done() { return Done(*this); }

 private:
  Signal done_;
  std::uint32_t left_;
};

// Awaited: a condition on the subject holds. It is tested at each notification of the signal.
template <class Subject>
class Until : private Suspension {
 public:
  using Condition = bool (Subject::*)() const;
  Until(const Subject& subject, Condition holds, Signal& signal) : subject_(subject), holds_(holds), signal_(signal) {}

  [[nodiscard]] bool await_ready() const { return (subject_.*holds_)(); }
  void await_suspend(std::coroutine_handle<> waiter) {
    handle = waiter;
    signal_.wait(*this);
  }
  void await_resume() const {}

 private:
  const Subject& subject_;
  Condition holds_;
  Signal& signal_;
};

}  // namespace outrigger::engine
