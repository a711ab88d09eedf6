// Takes the events of a service process out of the memory that it writes to, in the order in which it has written them,
// while it goes on: where they are wanted elsewhere, as on a DPU. Pages of which all have been taken go back to the
// system.
//
// Thread rule: one thread; the service process, which has one that writes, is another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "trace/event_memory.hpp"

namespace outrigger::trace {

// What a service process writes, and ranks do not.
[[nodiscard]] constexpr bool of_service(std::uint8_t kind) {
  return kind >= static_cast<std::uint8_t>(EventKind::taken) && kind <= static_cast<std::uint8_t>(EventKind::ended);
}

class Drain {
 public:
  explicit Drain(Memory memory) : memory_(std::move(memory)) {}

  // The next ones, `most` at most. An event that is being written comes next time.
  [[nodiscard]] std::vector<Event> next(std::size_t most);
  // Is there a next one?
  [[nodiscard]] bool more() const { return ready() > taken_; }
  // So many have not fitted since this was asked last.
  [[nodiscard]] std::uint64_t take_dropped();
  [[nodiscard]] const Memory& memory() const { return memory_; }

 private:
  // Places before this one are written, or will never be.
  [[nodiscard]] std::uint64_t ready() const;
  void release_pages();

  Memory memory_;
  std::uint64_t taken_ = 0;     // places
  std::uint64_t released_ = 0;  // bytes
  std::uint64_t dropped_ = 0;
};

}  // namespace outrigger::trace
