// A keeper reads the ranks' trace memory, with arbitrary bytes in the important places. The snapshot always has the
// size in its header, and contains only events. A service process sends only its own events to another machine.
// Received events are refused or encode to the same bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "round_trip.hpp"
#include "trace/drain.hpp"
#include "trace/remote_events.hpp"
#include "trace/snapshot.hpp"

namespace {

using namespace outrigger::trace;

Memory& memory() {
  static auto* one = new outrigger::Result<Memory>(Memory::create_private());
  if (!one->ok()) std::abort();
  return one->value();
}

void check(std::span<const std::byte> part) {
  PartHeader header;
  if (part.size() < sizeof header) std::abort();
  std::memcpy(&header, part.data(), sizeof header);
  const std::size_t at = sizeof header + header.names_bytes + header.communicators * sizeof(Communicator);
  const std::uint64_t events = header.events + header.service_events;
  if (header.communicators > kCommunicators || header.events > kEvents || header.service_events > kEvents) std::abort();
  if (part.size() != at + events * sizeof(Event)) std::abort();
  if (header.about.mpi.back() != '\0' || header.about.native_because.back() != '\0') std::abort();
  for (std::uint64_t i = 0; i < events; ++i) {
    Event event;
    std::memcpy(&event, part.data() + at + i * sizeof event, sizeof event);
    if (event.kind == 0 || event.kind > kLastKind) std::abort();
  }
}

using outrigger::check_round_trip;

// Nearly valid events of a service process.
void check_remote_events(std::span<const std::byte> bytes) {
  RemoteEvents events{1, 0, std::vector<Event>(bytes.size() / sizeof(Event))};
  const auto room = std::as_writable_bytes(std::span(events.events));
  std::ranges::copy(bytes.first(room.size()), room.begin());
  check_round_trip<RemoteEvents>(outrigger::encoded(events));
}

}  // namespace

// The first bytes go over the header's front, six more are the counts, the rest are events.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check_round_trip<RemoteEvents>(std::as_bytes(std::span(data, size)));
  check_remote_events(std::as_bytes(std::span(data, size)));
  constexpr std::size_t kFront = 64;
  constexpr std::uint64_t kMostHere = 1000;  // places that are looked at, or each input takes long
  std::span<const std::uint8_t> input(data, size);
  Header& header = memory().header();
  std::memset(static_cast<void*>(&header), 0, sizeof header);
  const std::size_t front = std::min(kFront, input.size());
  std::memcpy(static_cast<void*>(&header), input.data(), front);
  input = input.subspan(front);
  if (input.size() < 6) return 0;
  const auto word = [&](std::size_t i) { return std::uint64_t{input[i]} << 8U | input[i + 1]; };
  header.events = word(0) % kMostHere;
  header.service_events = word(2) % kMostHere;
  header.communicators = static_cast<std::uint32_t>(word(4) * 0x10001U);
  input = input.subspan(6);
  const std::size_t bytes = std::min(input.size(), kMostHere * sizeof(Event));
  std::memcpy(static_cast<void*>(memory().events()), input.data(), bytes);
  std::memcpy(static_cast<void*>(memory().service_events()), input.data(), bytes);
  check(snapshot(memory()));
  return 0;
}
