// Service processes on the DPU of this node, reached by way of `outriggerd dpu` there (dpu_link.hpp). They do not map
// the ranks' memory: every rank is offered its segment and says how to reach it, all of them connect, and then the
// ranks leave their networks alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protocol/dpu_link.hpp"
#include "service/keeper/services.hpp"

namespace outrigger::service {

class DpuServices final : public Services {
 public:
  DpuServices(const KeeperConfig& config, LocalRanks& ranks, Events& events);

  [[nodiscard]] Status start() override;
  [[nodiscard]] Status pass_rank_address(const LocalRank& rank, const SharedBytesBody& body,
                                         const UniqueFd& fd) override;
  void attached() override;
  void stop() override { link_.close(); }
  [[nodiscard]] std::vector<ServiceMessage> receive(const Event& event) override;
  [[nodiscard]] std::optional<Clock::time_point> next_look() const override;
  void send(std::uint32_t sp, std::vector<std::byte> packet, std::span<const int> fds) override;
  [[nodiscard]] int doorbell(std::uint32_t) const override { return -1; }

 private:
  [[nodiscard]] Status take_regions() const override;
  [[nodiscard]] std::string name() const;
  [[nodiscard]] std::chrono::milliseconds call_limit() const;
  [[nodiscard]] std::chrono::milliseconds attach_limit() const;
  [[nodiscard]] Status call();
  [[nodiscard]] Status wait_until_ready(Clock::time_point deadline);
  [[nodiscard]] Status offer_segments();
  void take(const DpuFrame& frame, std::vector<ServiceMessage>& messages);
  void rank_wired(std::uint32_t sp, const RankWiredBody& body);

  DpuLink link_;
  std::string host_;               // the DPU, as it names itself
  std::vector<ServiceSet> wired_;  // of each rank: service processes that are connected to it
  bool attached_ = false;
};

}  // namespace outrigger::service
