// The keeper of a node and job: meets the ranks, starts the service processes, holds the memory that must outlive both,
// and notices when either dies. One epoll loop, no threads.
//
// Phases:  gathering (ranks say hello) -> attaching (service processes map the ranks) -> running -> ending
//
//   gathering  all local ranks here: attaching.  Time over, a rank or the leader lost: everybody is refused.
//   attaching  every service process has attached every rank: welcome.  A service process fails, and none can take its
//              place: everybody is refused.
//   running    the last rank gone: end.  A service process dies: another one takes its place, or, where none can, the
//              ranks are told and then ended. Where those of a DPU cannot go on, others on cores of this node take all
//              their places once the ranks have left it.
//   ending     ranks that have not gone by themselves get SIGTERM, then SIGKILL.
//
// What goes on in them is in classes of their own: the keeper hands each message to the one that it is for, and goes
// from phase to phase. A rank's malformed or nonsensical message costs that rank its connection and nothing else.
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
#include "service/keeper/observe/live_door.hpp"
#include "service/keeper/ranks/door.hpp"
#include "service/keeper/ranks/job_end.hpp"
#include "service/keeper/ranks/local_ranks.hpp"
#include "service/keeper/supervise/node_services.hpp"
#include "service/keeper/supervise/services.hpp"
#include "service/keeper/supervise/starter.hpp"

namespace outrigger::service {

// Thread rule: everything on one thread, which calls run(); stop() from any.
class Keeper {
 public:
  // `listener`: a listening SOCK_SEQPACKET socket. `starter` must outlive the keeper.
  Keeper(KeeperConfig config, UniqueFd listener, ServiceStarter& starter);
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  // Until the job is over. 0: it ended well; 1: ranks were refused or the job was ended.
  [[nodiscard]] int run();
  // As if every rank had gone.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Phase { gathering, attaching, running, ending, over };

  void enter(Phase phase);
  void handle(const Event& event);
  void look_at_clock(Clock::time_point now);
  [[nodiscard]] int timeout_ms() const;

  // gathering
  void meet(Visitor visitor);
  void refuse_everybody(const std::string& reason);
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
  void take_protest(ProtestBody protest);
  void hear_of_nodes();
  void service_failed(const std::string& what);
  // Service processes of this node take the places of those on its DPU. False: they cannot.
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
  UniqueFd leader_;  // its exit event
  Phase phase_ = Phase::gathering;
  Clock::time_point attach_deadline_;  // for all ranks to be served
  int exit_status_ = 0;
  Door door_;
  LocalRanks ranks_;
  OtherNodes nodes_;
  ServiceStarter& starter_;
  std::unique_ptr<Services> services_;
  NodeServices* instead_of_dpu_ = nullptr;  // those, once they are to take the places of others on the DPU
  std::optional<LeavingDpu> leaving_;       // until they do
  JobMapExchange job_map_;
  JobEnd job_end_;
  JobCounts counts_;
  JobTraces traces_;
  FiguresOfADpu of_lost_dpu_;  // the last ones
  LiveDoor live_;
};

}  // namespace outrigger::service
