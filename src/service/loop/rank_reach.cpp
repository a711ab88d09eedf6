#include "service/loop/rank_reach.hpp"

#include <span>

#include "copy/policy.hpp"
#include "fabric/host/lanes/cma.hpp"
#include "service/notices/log.hpp"

namespace outrigger::service {
namespace {

// Is it the probe word of that rank? Every service process of the node adds one to it, in any order. A replacement
// leaves it unchanged, because the ranks' copiers know each other's words by then.
bool is_probe(std::uint64_t word, const RankJoinedBody& rank, const ConfigureBody& configuration) {
  return word - rank.probe_value <= configuration.sp_count;
}

bool reaches_by_cma(const RankJoinedBody& rank, const ConfigureBody& configuration) {
  std::uint64_t word = 0;
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(&word, 1));
  if (fabric::read_from_process(rank.pid, rank.probe_address, bytes) != fabric::MoveStatus::ok) return false;
  if (!is_probe(word, rank, configuration)) return false;
  if (configuration.epoch == 1) ++word;
  return fabric::write_to_process(rank.pid, rank.probe_address, bytes) == fabric::MoveStatus::ok;
}

// nullptr if XPMEM is not allowed or does not reach this rank's memory.
std::unique_ptr<fabric::XpmemWindows> open_windows(const RankJoinedBody& rank, const ConfigureBody& configuration) {
  const bool offered = (configuration.reach_allowed & kReachXpmem) != 0 && rank.xpmem_segment != kNoXpmemSegment;
  const XpmemCalls* calls = offered ? xpmem_calls() : nullptr;
  const std::unique_ptr<fabric::XpmemWindows> windows =
      calls != nullptr ? fabric::XpmemWindows::open(*calls, rank.xpmem_segment) : nullptr;
  if (!windows) return nullptr;
  std::uint64_t word = 0;
  const std::byte* ours = windows->at(rank.probe_address, sizeof(word));
  const bool read = ours != nullptr && fabric::copy_guarded(reinterpret_cast<std::byte*>(&word), ours, sizeof(word));
  // A new object for use, so that the attachment for the probe does not stay.
  if (read && word != rank.probe_value && is_probe(word, rank, configuration)) {
    return fabric::XpmemWindows::open(*calls, rank.xpmem_segment);
  }
  spdlog::warn("rank {}: XPMEM does not reach its memory", rank.world_rank);
  return nullptr;
}

}  // namespace

RankReach probe_rank(const RankJoinedBody& rank, const ConfigureBody& configuration) {
  const std::uint32_t allowed = configuration.reach_allowed;
  RankReach found{allowed & kReachMapped, nullptr};
  if ((allowed & kReachCma) == 0 || !reaches_by_cma(rank, configuration)) return found;
  found.reach |= kReachCma;
  if (copy::lenders_with(configuration.core_share) != copy::Lenders::none) found.reach |= allowed & kReachCopier;
  found.windows = open_windows(rank, configuration);
  if (found.windows) found.reach |= kReachXpmem;
  return found;
}

}  // namespace outrigger::service
