#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace outrigger::engine {

// Totals and highest values of one engine since it was made. Nothing here is per rank or per peer.
struct EngineCounters {
  struct Messages {
    std::uint64_t count = 0;
    std::uint64_t bytes = 0;
  };
  static constexpr std::size_t kMessageKinds = 10;  // indexed like peer::Body
  std::array<Messages, kMessageKinds> sent{};
  std::array<Messages, kMessageKinds> received{};
  std::uint64_t moves = 0;
  std::uint64_t moved_bytes = 0;
  std::uint64_t reductions = 0;  // of two blocks each
  std::uint64_t reduced_bytes = 0;
  std::uint64_t reconsidered_segments = 0;       // waits for a replica that were looked at again
  std::uint64_t most_inbound = 0;                // messages received and not processed yet
  std::uint64_t most_kept_announcements = 0;     // of one operation, for local ranks that have not posted
  std::uint64_t most_announcements_waiting = 0;  // own announcements to one peer that wait for a credit
  std::uint64_t most_frames = 0;                 // live coroutines
};

}  // namespace outrigger::engine
