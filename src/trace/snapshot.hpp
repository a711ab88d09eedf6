// A rank's events as bytes: what is sent and written to files. A file is one such part after the other; all numbers are
// little-endian. python/outrigger/trace/events.py reads them.
//
//   PartHeader | names, a line each | Communicator[communicators] | Event[events] | Event[service_events]
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "base/result.hpp"
#include "trace/event_memory.hpp"

namespace outrigger::trace {

inline constexpr std::array<char, 8> kPartMagic{'O', 'U', 'T', 'R', 'T', 'R', 'C', '1'};

struct PartHeader {
  std::array<char, 8> magic = kPartMagic;
  std::uint32_t version = kFormatVersion;
  std::uint32_t header_bytes = 0;  // of this header
  std::uint32_t event_bytes = sizeof(Event);
  std::uint32_t communicators = 0;
  std::uint64_t names_bytes = 0;
  std::uint64_t events = 0;
  std::uint64_t events_dropped = 0;
  std::uint64_t service_events = 0;
  std::uint64_t service_events_dropped = 0;
  About about;
};
static_assert(sizeof(PartHeader) == 552 && std::is_trivially_copyable_v<PartHeader>);

// "call 3 MPI_Ialltoallv", "reason 1 unknown communicator": names of the numbers in events. Kinds are call, completion,
// reason, collective, algorithm, reach; for a rank also its phases.
[[nodiscard]] const std::string& event_names();

// The memory may be written to meanwhile, or contain anything: invalid events are left out.
[[nodiscard]] std::vector<std::byte> snapshot(const Memory& memory);

// Replaces the file's content atomically.
[[nodiscard]] Status write_parts(const std::string& path, const std::vector<std::vector<std::byte>>& parts);

}  // namespace outrigger::trace
