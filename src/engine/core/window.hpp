// Limits the moves in flight of one service process, with a fair queue. Only moves with both ends posted enter, so a
// slot is always given back and a full window always drains.
#pragma once

#include <fmt/format.h>

#include <cassert>
#include <coroutine>
#include <cstdint>
#include <optional>
#include <string>

#include "engine/core/scheduler.hpp"

namespace outrigger::engine {

class Window {
 public:
  Window(Scheduler& scheduler, std::uint32_t limit) : scheduler_(scheduler), limit_(limit == 0 ? 1 : limit) {}

  // Awaited; on resumption one slot is held and counted in `holder`.
  class Enter : private Suspension {
   public:
    Enter(Window& window, std::uint32_t& holder) : window_(window), holder_(holder) {}
    ~Enter() {
      if (granted_ && !entered_) window_.give_back();
    }

    [[nodiscard]] bool await_ready() {
      if (!window_.waiting_.empty() || window_.held_ >= window_.limit_) return false;
      ++window_.held_;
      granted_ = true;
      return true;
    }
    void await_suspend(std::coroutine_handle<> waiter) {
      handle = waiter;
      window_.waiting_.push_back(*this);
    }
    void await_resume() {
      entered_ = true;
      ++holder_;
    }

   private:
    friend class Window;
    Window& window_;
    std::uint32_t& holder_;
    bool granted_ = false;
    bool entered_ = false;
  };

  [[nodiscard]] Enter enter(std::uint32_t& holder) { return Enter(*this, holder); }

  void leave(std::uint32_t& holder) {
    assert(holder != 0 && "a move that leaves the window is in it");
    --holder;
    give_back();
  }

  [[nodiscard]] std::uint32_t held() const { return held_; }
  [[nodiscard]] bool has_waiters() const { return !waiting_.empty(); }

  // `counted`: by the ranks. They do not count slots of coroutines that were resumed and have not run yet.
  [[nodiscard]] std::optional<std::string> broken_invariant(std::uint32_t counted) const {
    if (held_ > limit_) return fmt::format("{} window slots held of {}", held_, limit_);
    if (!scheduler_.idle()) return std::nullopt;
    if (held_ != counted) return fmt::format("window slot leaked: {} held, {} counted by ranks' moves", held_, counted);
    if (has_waiters() && held_ < limit_) return "a move waits although the window has room";
    return std::nullopt;
  }

 private:
  // The longest waiter gets the slot.
  void give_back() {
    assert(held_ != 0 && held_ <= limit_ && "no more slots are held than there are");
    if (Suspension* next = waiting_.pop_front()) {
      static_cast<Enter*>(next)->granted_ = true;
      scheduler_.make_ready(*next);
      return;
    }
    --held_;
  }

  Scheduler& scheduler_;
  std::uint32_t limit_;
  std::uint32_t held_ = 0;
  SuspensionQueue waiting_;
};

}  // namespace outrigger::engine
