// Events of a service process on their way to their rank's event memory on another machine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "trace/drain.hpp"
#include "trace/event.hpp"

namespace outrigger::trace {

inline constexpr std::size_t kMostRemoteEvents = 4096;  // at a time: 256 KiB

struct RemoteEvents {
  std::uint32_t world_rank = 0;  // the rank that they belong to
  std::uint64_t dropped = 0;     // since the previous message, not counting these
  std::vector<Event> events;     // with times of the other machine's clock
  static constexpr void fields(auto& io, auto& said) {
    io.value(said.world_rank, said.dropped);
    io.list(said.events, kMostRemoteEvents);
    const auto can_be = [](const Event& one) { return of_service(one.kind) && one.began_ns <= one.ended_ns; };
    io.require(std::ranges::all_of(said.events, can_be));
  }
};

}  // namespace outrigger::trace
