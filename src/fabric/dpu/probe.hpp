// Tests a DPU's access to its host's memory, without a job.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "fabric/dpu/dpu_fabric.hpp"
#include "fabric/ucx/worker.hpp"
#include "protocol/shared/segment.hpp"
#include "protocol/wire/rank_address.hpp"

namespace outrigger::fabric::dpu {

// The host's part: memory like a rank's.
class ProbedMemory final : private ucx::WorkerEvents {
 public:
  static constexpr std::uint64_t kBytes = 16ULL << 20;

  // `transports`: as UCX_TLS; empty: UCX's own settings.
  [[nodiscard]] static Result<std::unique_ptr<ProbedMemory>> open(const std::string& transports);
  ~ProbedMemory();
  [[nodiscard]] const RankAddress& address() const { return address_; }
  void progress();
  // Stops driving the network.
  void be_quiet() { segment_.header().rank_quiet.store(kRankQuiet); }

 private:
  ProbedMemory() = default;
  [[nodiscard]] Status start(const std::string& transports);
  // Registers memory and packs its key.
  struct Added {
    ucp_mem_h memory = nullptr;
    std::vector<std::byte> key;
  };
  [[nodiscard]] Result<Added> add(void* base, std::uint64_t bytes);
  void offer_trial();
  void came_from(ucp_ep_h sender) override { sender_ = sender; }
  ucs_status_t arrived(std::span<const std::byte> header, void* data, std::size_t bytes, bool rendezvous) override;

  Mapping mapping_;
  Mapping buffer_;
  Mapping trial_;
  SegmentView segment_;
  std::optional<ucx::Context> context_;
  std::optional<ucx::Worker> worker_;
  std::vector<ucp_mem_h> registered_;
  ucp_ep_h sender_ = nullptr;
  bool must_reply_ = false;
  RankMessage answer_;
  RankAddress address_;
};

struct ProbeFigures {
  std::uint32_t reach = 0;  // kReach* bits
  std::string device;
  double round_trip_us = 0;
  double bytes_per_s = 0;
};

// The DPU's part. Calls `wired` when the host may stop driving its network. Error: the memory cannot be reached, with
// the reason.
[[nodiscard]] Result<ProbeFigures> probe_memory(const RankAddress& address, const DpuOptions& options,
                                                const std::function<void()>& wired);

}  // namespace outrigger::fabric::dpu
