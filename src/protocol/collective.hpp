// What can be offloaded, by which algorithm, and how an operation ends. The numbers are part of the wire format:
// add at the end, never renumber.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace outrigger {

enum class Collective : std::uint16_t { ialltoall = 1, ialltoallv = 2 };

enum class Algorithm : std::uint16_t { ring_pull = 1, scatter_dest = 2 };

enum class CompletionStatus : std::uint32_t {
  ok = 0,
  truncated = 1,     // a peer sent more than this rank has room for (MPI_ERR_TRUNCATE)
  mismatch = 2,      // ranks disagree on collective, algorithm, root or configuration
  rejected = 3,      // the service process could not accept the posted slot (malformed, out of bounds)
  memory_fault = 4,  // a named range could not be read or written
  peer_lost = 5,     // a rank or service process that this operation needs is gone
};

[[nodiscard]] constexpr std::string_view name_of(Collective collective) {
  switch (collective) {
    case Collective::ialltoall: return "ialltoall";
    case Collective::ialltoallv: return "ialltoallv";
  }
  return "unknown";
}

[[nodiscard]] constexpr std::string_view name_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::ring_pull: return "ring_pull";
    case Algorithm::scatter_dest: return "scatter_dest";
  }
  return "unknown";
}

[[nodiscard]] constexpr std::string_view name_of(CompletionStatus status) {
  switch (status) {
    case CompletionStatus::ok: return "ok";
    case CompletionStatus::truncated: return "message truncated";
    case CompletionStatus::mismatch: return "ranks disagree about the collective";
    case CompletionStatus::rejected: return "request rejected by the service process";
    case CompletionStatus::memory_fault: return "memory not accessible";
    case CompletionStatus::peer_lost: return "peer lost";
  }
  return "unknown";
}

[[nodiscard]] constexpr std::optional<Algorithm> algorithm_named(std::string_view name) {
  for (Algorithm algorithm : {Algorithm::ring_pull, Algorithm::scatter_dest}) {
    if (name_of(algorithm) == name) return algorithm;
  }
  return std::nullopt;
}

[[nodiscard]] constexpr std::optional<Collective> collective_named(std::string_view name) {
  for (Collective collective : {Collective::ialltoall, Collective::ialltoallv}) {
    if (name_of(collective) == name) return collective;
  }
  return std::nullopt;
}

// What every rank of a group must agree on for one operation. Travels in each announcement; a difference is an error
// with a name, never a hang.
[[nodiscard]] constexpr std::uint64_t operation_digest(Collective collective, Algorithm algorithm, std::uint32_t root,
                                                       std::uint32_t group_size, std::uint64_t configuration) {
  std::uint64_t digest = 0xCBF29CE484222325ULL;
  const auto mix = [&digest](std::uint64_t word) {
    digest ^= word;
    digest *= 0x100000001B3ULL;
    digest ^= digest >> 29;
  };
  mix(static_cast<std::uint64_t>(collective));
  mix(static_cast<std::uint64_t>(algorithm));
  mix(root);
  mix(group_size);
  mix(configuration);
  return digest;
}

}  // namespace outrigger
