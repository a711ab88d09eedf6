// A service process: one event loop that takes operations from its ranks, runs the engine and moves the bytes.
//
// No threads, no locks. It spins while there was work a moment ago, then says in shared memory that it sleeps, looks
// once more, and blocks until a doorbell or the keeper wakes it. It ends when its keeper does.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "engine/engine.hpp"
#include "fabric/dpu/dpu_fabric.hpp"
#include "fabric/host/host_fabric.hpp"
#include "fabric/ucx/cluster_fabric.hpp"
#include "fabric/ucx/wire.hpp"
#include "protocol/byte_ring.hpp"
#include "protocol/control.hpp"
#include "protocol/job_map.hpp"
#include "protocol/segment.hpp"
#include "service/loop/group_cache.hpp"
#include "service/loop/job_protest.hpp"
#include "service/loop/wire_pace.hpp"

namespace outrigger::service {

// Thread rule: everything on one thread, which calls run().
class Service {
 public:
  // `control`: this end of the socket pair to the keeper, which starts by sending `configure`.
  explicit Service(UniqueFd control);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Serves until the keeper is gone (0) or something is broken that cannot be answered to a rank (not 0; the keeper has
  // been told why).
  [[nodiscard]] int run();

 private:
  using Clock = std::chrono::steady_clock;
  // A rank that this service process serves.
  struct ServedRank {
    WorldRank rank;
    SegmentView segment;
    std::uint32_t head = 0;                    // ring entries taken
    std::uint32_t overflow_taken = 0;          // records
    std::optional<LocalRef> last_record = {};  // the last one of them; the rank leaves it there
  };
  struct InboundPeer {
    SpId sp;
    Mapping mapping;
    ByteRingReader ring;
  };

  // One turn of the loop; true when anything was done.
  [[nodiscard]] bool turn();
  [[nodiscard]] bool take_posts();
  [[nodiscard]] bool take_posts_of(ServedRank& served);
  // What the rank has had no slots for.
  [[nodiscard]] bool take_overflow_of(ServedRank& served);
  [[nodiscard]] std::optional<LocalRef> next_record(const ServedRank& served);
  void take_slot(const ServedRank& served, SlotIndex slot, const SlotRequestBody& body);
  [[nodiscard]] bool take_messages();
  [[nodiscard]] bool take_wire_messages();
  void rest(Clock::time_point now);
  void look_after_peers(Clock::time_point now);
  // Lets the ranks know how data travels, when that has become known.
  void tell_routes();
  [[nodiscard]] int sleep_timeout_ms() const;
  // All ranks of this service process sleep in a wait: nobody computes on a core that it shares with them.
  [[nodiscard]] bool ranks_wait() const;
  [[nodiscard]] std::chrono::microseconds spin() const;
  // Ranks compute on the core: every look that finds nothing is taken from them, and a turn given to them lasts as long
  // as they like.
  [[nodiscard]] bool core_is_wanted() const;
  void wait_for_something();
  // Until a rank, the keeper or the network has something; with `pause`: until a rank or the keeper has, so long at
  // most.
  void sleep(std::chrono::microseconds pause = {});
  void sleep_for(std::chrono::microseconds pause) const;
  void announce_sleep(bool sleeping);
  [[nodiscard]] bool anything_pending() const;

  // True when there was a message.
  bool read_control();
  void handle(ControlMessage& message);
  void configure(const ConfigureBody& body);
  void open_wire();
  void open_dpu();
  void add_remote_rank(const RankRemoteBody& body, const UniqueFd& fd);
  void look_after_ranks(Clock::time_point now);
  void take_attached(const fabric::dpu::DpuFabric::Attached& attached);
  [[nodiscard]] fabric::Fabric& node_fabric();
  [[nodiscard]] fabric::NodeMemory& node_memory();
  [[nodiscard]] Status fits_this_node(const JobMap& job_map, std::uint32_t node) const;
  void take_job_map(const SharedBytesBody& body, const UniqueFd& fd);
  void add_peer(const PeerRingBody& body, std::vector<UniqueFd>& fds);
  void add_rank(const RankJoinedBody& body, std::vector<UniqueFd>& fds);
  void add_region(const RegionBody& body, std::vector<UniqueFd>& fds);
  void remove_rank(WorldRank rank);
  [[nodiscard]] std::uint32_t probe_reach(const RankJoinedBody& body) const;
  // Null: XPMEM is not allowed or does not reach this rank's memory.
  [[nodiscard]] std::unique_ptr<fabric::XpmemWindows> probe_windows(const RankJoinedBody& body) const;
  void start_engine_when_complete();
  // Has nothing to do with this rank any more, and says why.
  void protest(WorldRank rank, const std::string& reason);
  void fail(const std::string& reason, std::uint32_t about = kWholeJob);
  void leave_wire();
  void keeper_lost();

  ControlSocket control_;
  UniqueFd epoll_;
  UniqueFd doorbell_;
  std::optional<ConfigureBody> configuration_;
  std::vector<std::optional<SpId>> sp_of_rank_;
  std::uint32_t ranks_known_ = 0;
  std::optional<GroupCache> groups_;
  fabric::HostFabric fabric_;
  std::unique_ptr<fabric::dpu::DpuFabric> dpu_;  // where this runs on a DPU; refers to fabric_, which has mirrors then
  // In a job of several nodes.
  std::unique_ptr<fabric::ucx::Wire> wire_;  // refers to fabric_
  std::optional<JobMap> job_map_;
  std::optional<fabric::ucx::ClusterFabric> cluster_;  // refers to both
  std::uint32_t first_sp_ = 0;                         // of this node, in the job
  std::unique_ptr<engine::Engine> engine_;             // after every rank is known; refers to the above
  std::vector<ServedRank> served_;
  std::vector<WorldRank> misbehaved_;  // removed after the current sweep
  std::vector<InboundPeer> peers_;
  std::vector<std::byte> message_;

  std::chrono::microseconds spin_{0};
  bool yield_ = false;  // the core belongs to ranks as well
  bool idle_ = false;
  Clock::time_point idle_since_;
  Clock::time_point control_read_;
  Clock::time_point peers_seen_;
  std::uint32_t peer_turns_left_ = 0;  // looks at signs of life after the last post
  std::size_t routes_told_ = 0;
  WirePace pace_;
  std::uint32_t turns_ = 0;
  bool ended_ = false;
  int exit_status_ = 0;
  bool node_lost_ = false;
};

}  // namespace outrigger::service
