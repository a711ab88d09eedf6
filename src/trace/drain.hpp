// Takes a service process's events out of its event memory, in order and while it continues to write. Used on a DPU,
// where another machine needs the events. Pages whose events have all been taken are returned to the system.
//
// Thread rule: one thread, beside the one writing thread of the service process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "trace/event_memory.hpp"

namespace outrigger::trace {

// Events that service processes write; ranks write the others.
[[nodiscard]] constexpr bool of_service(std::uint8_t kind) {
  return kind >= static_cast<std::uint8_t>(EventKind::taken) && kind <= static_cast<std::uint8_t>(EventKind::ended);
}

class Drain {
 public:
  explicit Drain(Memory memory) : memory_(std::move(memory)) {}

  // The next events, `most` at most. An event that is being written comes next time.
  [[nodiscard]] std::vector<Event> next(std::size_t most);
  // True if there is a next event.
  [[nodiscard]] bool more() const { return ready() > taken_; }
  // Number of events that did not fit since the last call.
  [[nodiscard]] std::uint64_t take_dropped();
  [[nodiscard]] const Memory& memory() const { return memory_; }

 private:
  // Places before this one are written, or will never be.
  [[nodiscard]] std::uint64_t ready() const;
  void release_pages();

  Memory memory_;
  std::uint64_t taken_ = 0;     // number of places
  std::uint64_t released_ = 0;  // bytes
  std::uint64_t dropped_ = 0;
};

}  // namespace outrigger::trace
