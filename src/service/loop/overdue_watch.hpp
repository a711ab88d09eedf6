// Has operations that wait long looked at, in case a rank has left its call to its MPI (protocol/native_calls.hpp). To
// the loop it is a port, as that wakes for it.
//
// Thread rule: one thread.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <utility>

#include "engine/engine.hpp"
#include "fabric/port.hpp"

namespace outrigger::service {

class OverdueWatch final : public fabric::Port {
 public:
  // Null until there is one.
  using FindEngine = std::function<engine::Engine*()>;
  explicit OverdueWatch(FindEngine engine) : engine_(std::move(engine)) {}

  bool progress() override { return false; }
  void look_after(Clock::time_point now, const fabric::Business& /*business*/) override {
    engine::Engine* engine = engine_();
    if (engine == nullptr || now - looked_ < kBetweenLooks) return;
    looked_ = now;
    asked_ = engine->look_for_passed();
  }
  // Once after it has asked: the engine has something to do.
  [[nodiscard]] bool arm() override { return !std::exchange(asked_, false); }
  [[nodiscard]] std::optional<Clock::duration> sleep_limit(Clock::time_point now) const override {
    const engine::Engine* engine = engine_();
    if (engine == nullptr || engine->open_operations() == 0) return std::nullopt;
    return looked_ + kBetweenLooks - now;
  }

 private:
  static constexpr std::chrono::seconds kBetweenLooks{1};

  FindEngine engine_;
  Clock::time_point looked_;
  bool asked_ = false;
};

}  // namespace outrigger::service
