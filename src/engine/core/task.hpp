// A coroutine of the engine. It starts suspended in a TaskList, which owns it, and destroys its own frame at its end.
// Destroying the list destroys unfinished tasks: destructors of awaitables cancel moves and leave queues.
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <utility>

#include "engine/core/pool.hpp"
#include "engine/core/scheduler.hpp"

namespace outrigger::engine {

class [[nodiscard]] Task {
 public:
  struct promise_type;
  using Handle = std::coroutine_handle<promise_type>;

  struct promise_type {
    Suspension start;       // in the ready queue until first resumed
    Suspension membership;  // in its owner's list

    Task get_return_object() { return Task(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }  // destroys the frame, which leaves the list
    void return_void() {}
    void unhandled_exception() { std::terminate(); }

    // Allocates the frame in the pool of the first argument if that has one (an operation).
    template <class Owner, class... Rest>
      requires requires(Owner& owner) { owner.frames(); }
    static void* operator new(std::size_t bytes, Owner& owner, Rest&... /*rest*/) {
      return owner.frames().allocate(bytes);
    }
    static void* operator new(std::size_t bytes) { return Pool::allocate_alone(bytes); }
    static void operator delete(void* frame) { Pool::release(frame); }
  };

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

 private:
  friend class TaskList;
  explicit Task(Handle handle) : handle_(handle) {}
  Handle handle_;
};

class TaskList {
 public:
  explicit TaskList(Scheduler& scheduler) : scheduler_(scheduler) {}
  TaskList(const TaskList&) = delete;
  TaskList& operator=(const TaskList&) = delete;
  ~TaskList() { clear(); }

  void spawn(Task task) {
    const Task::Handle handle = std::exchange(task.handle_, nullptr);
    Task::promise_type& promise = handle.promise();
    promise.start.handle = handle;
    promise.membership.handle = handle;
    tasks_.push_back(promise.membership);
    scheduler_.make_ready(promise.start);
  }

  // Must not be called by one of the tasks.
  void clear() {
    while (Suspension* task = tasks_.pop_front()) task->handle.destroy();
  }

  [[nodiscard]] bool empty() const { return tasks_.empty(); }

 private:
  Scheduler& scheduler_;
  SuspensionQueue tasks_;
};

}  // namespace outrigger::engine
