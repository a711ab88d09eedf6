// Lets the engine check operations that wait long: a rank may have left its call to its MPI
// (protocol/native_calls.hpp). It is a port, because the loop wakes up for ports.
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
  // Returns nullptr before there is an engine.
  using FindEngine = std::function<engine::Engine*()>;
  explicit OverdueWatch(FindEngine engine) : engine_(std::move(engine)) {}

  bool progress() override { return false; }
  void look_after(Clock::time_point now, const fabric::Business& /*business*/) override {
    engine::Engine* engine = engine_();
    if (engine == nullptr || now - looked_ < kBetweenLooks) return;
    looked_ = now;
    asked_ = engine->look_for_passed();
  }
  // False once after a check: the engine has something to do.
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
