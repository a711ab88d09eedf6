// Builds the objects of a service process from the keeper's messages: the ranks and their memory, the peers, and ports
// to all of them. Makes the engine when every rank of the job is known.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/unique_fd.hpp"
#include "engine/engine.hpp"
#include "fabric/dpu/dpu_fabric.hpp"
#include "fabric/dpu/marks_first.hpp"
#include "fabric/host/host_fabric.hpp"
#include "fabric/port.hpp"
#include "fabric/seams.hpp"
#include "fabric/ucx/cluster_fabric.hpp"
#include "fabric/ucx/wire.hpp"
#include "protocol/wire/control.hpp"
#include "protocol/wire/job_map.hpp"
#include "service/loop/core_policy.hpp"
#include "service/loop/heartbeat.hpp"
#include "service/loop/keeper_link.hpp"
#include "service/loop/keeperless_mode.hpp"
#include "service/loop/post_intake.hpp"
#include "service/loop/service_tracing.hpp"
#include "service/loop/sleeper.hpp"

namespace outrigger::service {

class Wiring {
 public:
  // New ports are added to `ports`. All must outlive this.
  Wiring(KeeperLink& keeper, fabric::HostFabric& host, fabric::Ports& ports, SteeringHost& plans, PostIntake& posts,
         CorePolicy& core, Sleeper& sleeper, Heartbeat& heartbeat, KeeperlessMode& keeperless);

  void handle(ControlMessage& message);
  // nullptr while ranks are unknown, or while the predecessor's moves are not at rest.
  [[nodiscard]] engine::Engine* engine() const { return engine_.get(); }
  // Exists with the engine.
  [[nodiscard]] steer::Coordinator* coordinator() const { return coordinator_.get(); }
  // Every few turns: reports to the keeper which remote ranks have been reached.
  void report_attached();
  // All ranks are known; the predecessor's moves will be at rest in a moment.
  [[nodiscard]] bool waits_for_rest() const { return introduced_ && !engine_; }
  void start_engine_when_complete();
  // Without an engine, the rank is dropped from it when it starts. Harmless for a rank that has been removed.
  void remove_rank(WorldRank rank);
  // At the end: closes the connections to other nodes, or tells the ranks that the keeper is gone.
  void leave();

 private:
  void configure(const ConfigureBody& body);
  void share_core(const CoreShareBody& body);
  [[nodiscard]] Status open_dpu();
  [[nodiscard]] Status open_wire();
  void add_port(fabric::Port& port);
  void publish_route(const WireRoute& route);
  void add_peer(const PeerRingBody& body, std::vector<UniqueFd>& fds);
  // False: it is out of range, or was named before.
  [[nodiscard]] bool is_new(std::uint32_t world_rank);
  void add_rank(const RankJoinedBody& body, std::vector<UniqueFd>& fds);
  void add_remote_rank(const RankRemoteBody& body, const UniqueFd& fd);
  void take_place(const TakePlaceBody& body);
  void rank_left(const RankLeftBody& body);
  void know_rank(std::uint32_t world_rank, std::uint32_t sp);
  void tell(const fabric::dpu::Attached& attached);
  void add_region(const RegionBody& body, std::vector<UniqueFd>& fds);
  void move_peer(const PeerMovedBody& body, const UniqueFd& fd);
  void answer_job_map(const SharedBytesBody& body, const UniqueFd& fd);
  [[nodiscard]] Status take_job_map(const SharedBytesBody& body, const UniqueFd& fd);
  [[nodiscard]] bool complete() const;
  void restarted(SpId peer, Epoch epoch);
  // Continues the operations of the service process before this one.
  void take_over();
  void drop_from_engine(WorldRank rank);
  // The engine's seams, made once.
  [[nodiscard]] fabric::Seams seams();
  // The fabric for this node's ranks, on this machine or on the host: a BlockMover, a RankView or the NodeMemory.
  template <class Part>
  [[nodiscard]] Part& of_node() {
    if (dpu_) return *dpu_;
    return host_;
  }

  KeeperLink& keeper_;
  fabric::HostFabric& host_;
  fabric::Ports& ports_;
  SteeringHost& plans_;
  PostIntake& posts_;
  CorePolicy& core_;
  Sleeper& sleeper_;
  Heartbeat& heartbeat_;
  KeeperlessMode& keeperless_;
  std::optional<ConfigureBody> configuration_;
  std::vector<std::optional<SpId>> sp_of_rank_;  // of this node
  std::vector<WorldRank> left_before_;           // ranks that had left before there was an engine
  std::uint32_t ranks_known_ = 0;
  bool introduced_ = false;
  // Degraded mode: no rank copies for it, it attaches no rank's memory, and it makes one move at a time.
  bool degraded_ = false;
  std::uint32_t looks_for_rest_ = 0;
  std::map<SpId, Epoch> peer_epochs_;  // of this node, by their numbers here
  std::map<SpId, Epoch> moved_;        // of other nodes, by their numbers in the job
  SpId self_;                          // in the job
  std::size_t routes_published_ = 0;
  // Each may refer to earlier members.
  std::unique_ptr<fabric::dpu::DpuFabric> dpu_;  // only on a DPU; host_ has mirrors then
  std::unique_ptr<fabric::ucx::Wire> wire_;      // only in a job of several nodes
  std::optional<JobMap> job_map_;
  std::optional<fabric::ucx::ClusterFabric> cluster_;
  std::unique_ptr<fabric::dpu::MarksFirst> marks_first_;  // only on a DPU
  Tracing tracing_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<steer::Coordinator> coordinator_;
};

}  // namespace outrigger::service
