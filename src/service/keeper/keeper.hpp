// The keeper of a node and job. It accepts the ranks, starts the service processes, holds the memory that must outlive
// both, and detects the end of either. One epoll loop, no threads.
//
//   Phases:  gathering (ranks say hello) -> attaching (service processes map the ranks) -> running -> ending
//
//   gathering  all local ranks are here: attaching.  Timeout, or a rank or the leader is lost: all ranks are refused.
//   attaching  every service process has attached every rank: welcome.  A service process fails without a
//              replacement: all ranks are refused.
//   running    the last rank has left: end.  A service process dies: a replacement takes its place. Without one, the
//              ranks are told and then ended. If those of a DPU cannot continue, service processes on this node take
//              all their places once the ranks have detached from the DPU.
//   ending     ranks that have not ended by themselves get SIGTERM, then SIGKILL.
//
// Classes of their own do the work; the keeper passes each message to one of them and changes the phase. A malformed
// message costs its rank the connection and nothing else.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/unique_fd.hpp"
#include "service/dpu/host/figures_of_dpu.hpp"
#include "service/dpu/host/leaving_dpu.hpp"
#include "service/keeper/events.hpp"
#include "service/keeper/keeper_config.hpp"
#include "service/keeper/nodes/job_map_exchange.hpp"
#include "service/keeper/nodes/other_nodes.hpp"
#include "service/keeper/observe/job_counts.hpp"
#include "service/keeper/observe/job_traces.hpp"
#include "service/keeper/observe/live_listener.hpp"
#include "service/keeper/ranks/job_end.hpp"
#include "service/keeper/ranks/local_ranks.hpp"
#include "service/keeper/ranks/rank_listener.hpp"
#include "service/keeper/supervise/node_services.hpp"
#include "service/keeper/supervise/services.hpp"
#include "service/keeper/supervise/starter.hpp"

namespace outrigger::service {

// Thread rule: everything on the thread that calls run(); stop() from any thread.
class Keeper {
 public:
  // `listener`: a listening SOCK_SEQPACKET socket. `starter` must outlive the keeper.
  Keeper(KeeperConfig config, UniqueFd listener, ServiceStarter& starter);
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  // Runs until the job is over. 0: it ended well; 1: ranks were refused or the job was ended.
  [[nodiscard]] int run();
  // Ends the job as if every rank had left.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Phase { gathering, attaching, running, ending, over };

  void enter(Phase phase);
  void handle(const Event& event);
  void look_at_clock(Clock::time_point now);
  [[nodiscard]] int timeout_ms() const;

  // gathering
  void meet(NewRank new_rank);
  void refuse_all_ranks(const std::string& reason);
  // attaching
  void start_services();
  void welcome_when_attached();
  void welcome(LocalRank& rank);
  // running
  void read_rank(std::uint32_t local_rank);
  [[nodiscard]] Status take_from_rank(std::uint32_t local_rank, ControlMessage& message);
  void disconnect_rank(std::uint32_t local_rank, const std::string& reason);
  void rank_left(std::uint32_t local_rank, const std::string& how);
  void read_services(const Event& event);
  void take_from_service(std::uint32_t sp, ControlMessage& message);
  void take_fault_report(FaultReportBody fault);
  void take_node_news();
  void service_failed(const std::string& what);
  // Replaces the service processes on the DPU by some on this node. False: not possible.
  [[nodiscard]] bool leave_dpu(const std::string& what);
  void go_on_without_dpu();
  // ending
  void end_job(const std::string& why);
  void end_when_empty();
  void show_trace(const LocalRank& rank);
  void write_traces();

  KeeperConfig config_;
  Events events_;
  UniqueFd stop_event_;
  UniqueFd leader_;  // exit event of the node leader
  Phase phase_ = Phase::gathering;
  Clock::time_point attach_deadline_;  // until all ranks are served
  int exit_status_ = 0;
  RankListener rank_listener_;
  LocalRanks ranks_;
  OtherNodes nodes_;
  ServiceStarter& starter_;
  std::unique_ptr<Services> services_;
  NodeServices* instead_of_dpu_ = nullptr;  // the same object once it is to replace those on the DPU; nullptr otherwise
  std::optional<LeavingDpu> leaving_;       // while ranks detach
  JobMapExchange job_map_;
  JobEnd job_end_;
  JobCounts counts_;
  JobTraces traces_;
  FiguresOfADpu of_lost_dpu_;  // the last ones of the DPU
  LiveListener live_;
};

}  // namespace outrigger::service
