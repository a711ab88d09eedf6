// Service processes on the DPU of this node, reached through `outriggerd dpu` there (dpu_link.hpp). They do not map the
// ranks' memory. Each rank is offered their segment and answers how to reach it, all of them connect, and then the
// ranks stop using their networks.
//
// Once ranks are served, a standby process is started there. A thread of each rank connects to it. The standby takes
// the place of a process that dies, without any action of the program. If it is needed before it is connected, it waits
// for the ranks.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "protocol/wire/dpu_link.hpp"
#include "service/dpu/host/fetched_from_dpu.hpp"
#include "service/keeper/nodes/other_nodes.hpp"
#include "service/keeper/supervise/service_deaths.hpp"
#include "service/keeper/supervise/services.hpp"
#include "service/placement/core_claims.hpp"

namespace outrigger::service {

class DpuServices final : public Services {
 public:
  // `nodes` must outlive this, too.
  DpuServices(const KeeperConfig& config, LocalRanks& ranks, Events& events, OtherNodes& nodes);

  [[nodiscard]] Status start() override;
  [[nodiscard]] Status pass_rank_address(const LocalRank& rank, const SharedBytesBody& body,
                                         const UniqueFd& fd) override;
  void attached() override;
  void stop() override;
  void rank_left(const RankLeftBody& left) override;
  [[nodiscard]] std::vector<ServiceMessage> receive(const Event& event) override;
  [[nodiscard]] std::optional<Clock::time_point> next_look() const override;
  void send(std::uint32_t sp, std::vector<std::byte> packet, std::span<const int> fds) override;
  [[nodiscard]] FetchedFromDpu* fetched_from_dpu() override { return &fetched_; }
  [[nodiscard]] int doorbell(std::uint32_t) const override { return -1; }
  [[nodiscard]] std::optional<std::chrono::milliseconds> replaceable_after() const override;
  [[nodiscard]] std::uint32_t times_started(std::uint32_t sp) const override { return times_started_[sp]; }

 private:
  [[nodiscard]] Status take_regions() const override;
  [[nodiscard]] std::string name() const;
  [[nodiscard]] Status call();
  void claim_copy_cores();
  [[nodiscard]] Status offer_segments();
  void take(const DpuFrame& frame, std::vector<ServiceMessage>& messages);
  void send_rank(std::uint32_t called, const LocalRank& rank);
  void rank_wired(std::uint32_t number, const RankWiredBody& body);
  void be_quiet_when_all_are_wired();
  void start_standby();
  void lost(std::uint32_t called, const DpuFrame& frame);
  void lost_place(std::uint32_t sp, const DpuLost& said);
  void fill_places(Clock::time_point now);
  void give_place(std::uint32_t sp, const std::string& instead_of);
  // Calls only the ranks that are still to be connected.
  void call_ranks();
  void look_at_limits(Clock::time_point now);

  // Processes are numbered in the order of their start; the first ones have their places' numbers.
  struct Process {
    std::set<std::uint32_t> unwired;         // world ranks without a connection to it
    std::optional<std::uint32_t> sp = {};    // its place; nullopt for the standby
    std::string broken = {};                 // why it cannot take a place; empty: it can
    std::string instead_of = {};             // its predecessor and the cause of its end
    std::optional<Clock::time_point> limit;  // of its connections
  };
  struct Vacant {
    std::uint32_t sp = 0;
    std::string what;             // how the last process there ended
    Clock::time_point from = {};  // when it may be filled
  };

  OtherNodes& nodes_;
  CoreClaims claims_;
  DpuLink link_;
  FetchedFromDpu fetched_{link_};
  std::string host_;                               // the DPU's own host name
  std::vector<std::vector<std::byte>> addresses_;  // by local rank
  std::map<std::uint32_t, Process> processes_;  // by number: the standby, and those that are not connected to all ranks
  std::optional<std::uint32_t> standby_;        // the standby's number
  std::uint32_t next_process_ = 0;
  std::vector<std::uint32_t> process_of_;     // by place
  std::vector<std::uint32_t> times_started_;  // by place
  std::deque<Vacant> vacant_;
  ServiceDeaths deaths_;
  ServiceDeaths standby_deaths_;
  bool quiet_ = false;  // ranks have been told to stop using their networks
  bool attached_ = false;
};

}  // namespace outrigger::service
