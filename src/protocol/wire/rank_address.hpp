// Data by which a service process on a DPU reaches a rank: the place and key of the rank's control segment, and the
// address of its network worker. Written by the rank, checked by decode_rank_address().
//
// Plain values; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "protocol/wire/message_io.hpp"

namespace outrigger {

inline constexpr std::uint32_t kRankAddressMagic = 0x4152524F;  // "ORRA"
inline constexpr std::size_t kMaxRankAddressBytes = 64U << 10;
inline constexpr std::uint64_t kRankPage = 4096;

// Memory of the rank for the trial of exported handles (exported_memory.hpp).
struct ExportTrial {
  std::uint64_t base = 0;           // in the rank's address space; kExportTrialBytes
  std::vector<std::byte> key;       // a packed key of UCX
  std::vector<std::byte> exported;  // its exported handle
  bool operator==(const ExportTrial&) const = default;
  static constexpr void fields(auto& io, auto& trial) {
    io.value(trial.base);
    io.list(trial.key, kMaxRankAddressBytes);
    io.list(trial.exported, kMaxRankAddressBytes);
    io.require(trial.base != 0 && trial.base % kRankPage == 0 && !trial.key.empty() && !trial.exported.empty());
  }
};

// The rank's process, for copies by other processes of its host: a word in its memory and the word's value tell it from
// a process of another namespace with the same number.
struct RankProcess {
  std::int32_t pid = 0;  // 0: not named
  std::uint64_t probe_address = 0;
  std::uint64_t probe_value = 0;
  bool operator==(const RankProcess&) const = default;
  static constexpr void fields(auto& io, auto& process) {
    io.value(process.pid, process.probe_address, process.probe_value);
    io.require(process.pid >= 0);
  }
};

struct RankAddress {
  std::uint64_t segment_base = 0;      // in the rank's address space
  std::uint64_t machine = 0;           // see this_machine()
  std::vector<std::byte> worker;       // an address of UCX
  std::vector<std::byte> segment_key;  // a packed key of UCX
  std::optional<ExportTrial> trial;    // nullopt: the rank exports nothing
  RankProcess process{};
  bool operator==(const RankAddress&) const = default;
  static constexpr void fields(auto& io, auto& address) {
    io.constant(kRankAddressMagic);
    io.value(address.segment_base, address.machine);
    io.list(address.worker, kMaxRankAddressBytes);
    io.list(address.segment_key, kMaxRankAddressBytes);
    io.optional(address.trial);
    io.value(address.process);
    io.require(address.segment_base % kRankPage == 0 && !address.worker.empty() && !address.segment_key.empty());
  }
};

// Error: not bytes that a Writer has written, or too many.
[[nodiscard]] Result<RankAddress> decode_rank_address(std::span<const std::byte> bytes);

// The same for all processes under one running kernel.
[[nodiscard]] std::uint64_t this_machine();

}  // namespace outrigger
