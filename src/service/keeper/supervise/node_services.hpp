// Service processes on cores of this node.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "service/keeper/nodes/other_nodes.hpp"
#include "service/keeper/supervise/neighbours.hpp"
#include "service/keeper/supervise/service_deaths.hpp"
#include "service/keeper/supervise/services.hpp"
#include "service/placement/cores.hpp"

namespace outrigger::service {

class NodeServices final : public Services {
 public:
  // `nodes` must outlive this, too.
  NodeServices(const KeeperConfig& config, LocalRanks& ranks, Events& events, ServiceStarter& starter,
               OtherNodes& nodes);

  [[nodiscard]] Status start() override;
  // Replaces start() when these take over from a DPU; `times_started` is by place. Starts nothing before
  // start_instead().
  [[nodiscard]] Status prepare_instead(std::span<const std::uint32_t> times_started);
  [[nodiscard]] Status start_instead();
  void attached() override { running_ = true; }
  void stop() override;
  [[nodiscard]] std::vector<ServiceMessage> receive(const Event& event) override;
  [[nodiscard]] std::optional<Clock::time_point> next_look() const override;
  void send(std::uint32_t sp, std::vector<std::byte> packet, std::span<const int> fds) override;
  [[nodiscard]] std::uint32_t times_started(std::uint32_t sp) const override { return processes_.times_started(sp); }
  [[nodiscard]] pid_t pid(std::uint32_t sp) const override { return sp < processes_.count() ? processes_.pid(sp) : 0; }
  [[nodiscard]] const ServicePages* shown(std::uint32_t sp) const override {
    return sp < processes_.count() ? processes_.shown(sp) : nullptr;
  }
  [[nodiscard]] int doorbell(std::uint32_t sp) const override { return processes_.doorbell(sp); }

 private:
  void show_trace(const LocalRank& rank);
  [[nodiscard]] Status take_regions() const override;
  [[nodiscard]] Status choose_places(std::uint32_t services);
  void assign_ranks();
  void place_with_claims(PlacementRequest& request, const Topology& topology);
  [[nodiscard]] bool claim_places(PlacementRequest& request, const Topology& topology);
  [[nodiscard]] std::vector<std::uint32_t> look_at_neighbours();
  void send_core_share(std::uint32_t sp);
  [[nodiscard]] Status launch(std::span<const std::uint32_t> sps);
  void configure(std::uint32_t sp);
  void look_for_hung();
  [[nodiscard]] Status introduce(std::uint32_t sp);
  void introduce_rank(std::uint32_t sp, const LocalRank& rank);
  // Starts replacements, or sets the failure.
  void replace(const std::vector<LostService>& lost);
  [[nodiscard]] std::optional<std::string> why_not_replaced(const LostService& lost);

  OtherNodes& nodes_;
  ServiceProcesses processes_;
  CoreClaims claims_;
  Neighbours neighbours_;
  CpuMask rank_cpus_;          // cores that this node's ranks are bound to
  Result<Topology> topology_;  // read while ranks are still arriving
  std::uint64_t cache_bytes_ = 0;
  bool running_ = false;  // ranks have been welcomed
  Clock::time_point looked_for_hung_;
  ServiceDeaths deaths_;
};

}  // namespace outrigger::service
