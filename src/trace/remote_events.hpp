// Events of a service process on their way to their rank's event memory on another machine: a header and, separately,
// the events. Fixed width, little-endian, every field checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "base/result.hpp"
#include "trace/event.hpp"

namespace outrigger::trace {

struct RemoteEventsHeader {
  std::uint32_t world_rank = 0;  // the rank that they belong to
  std::uint32_t events = 0;
  std::uint64_t dropped = 0;  // since the previous message, not counting these
};
static_assert(sizeof(RemoteEventsHeader) == 16 && std::has_unique_object_representations_v<RemoteEventsHeader>);

inline constexpr std::size_t kMostRemoteEvents = 4096;  // at a time: 256 KiB

struct RemoteEvents {
  std::uint32_t world_rank = 0;
  std::uint64_t dropped = 0;
  std::vector<Event> events;  // with times of the other machine's clock
};

// The two parts. At most kMostRemoteEvents.
[[nodiscard]] RemoteEventsHeader header_of(const RemoteEvents& events);
[[nodiscard]] std::span<const std::byte> bytes_of(const RemoteEvents& events);
// Error: header and events do not fit, or an event is not of a service process.
[[nodiscard]] Result<RemoteEvents> decode_remote_events(std::span<const std::byte> header,
                                                        std::span<const std::byte> events);

}  // namespace outrigger::trace
