#include "trace/remote_events.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "trace/drain.hpp"

namespace outrigger::trace {

RemoteEventsHeader header_of(const RemoteEvents& events) {
  assert(events.events.size() <= kMostRemoteEvents);
  return {events.world_rank, static_cast<std::uint32_t>(events.events.size()), events.dropped};
}

std::span<const std::byte> bytes_of(const RemoteEvents& events) {
  return std::as_bytes(std::span(events.events));
}

Result<RemoteEvents> decode_remote_events(std::span<const std::byte> header, std::span<const std::byte> events) {
  RemoteEventsHeader said;
  if (header.size() != sizeof said) return Error{"the header of trace events has the wrong size"};
  std::memcpy(&said, header.data(), sizeof said);
  if (said.events > kMostRemoteEvents || events.size() != said.events * sizeof(Event)) {
    return Error{"the number of trace events differs from their header"};
  }
  RemoteEvents decoded{said.world_rank, said.dropped, std::vector<Event>(said.events)};
  if (!events.empty()) std::memcpy(decoded.events.data(), events.data(), events.size());
  const auto can_be = [](const Event& one) { return of_service(one.kind) && one.began_ns <= one.ended_ns; };
  if (!std::ranges::all_of(decoded.events, can_be)) {
    return Error{"a trace event is not of a service process"};
  }
  return decoded;
}

}  // namespace outrigger::trace
