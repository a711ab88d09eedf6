// The keeper of a node and job: meets the ranks, starts the service processes, holds the memory that must outlive both,
// and notices when either dies. One epoll loop, no threads.
//
// Phases:  gathering (ranks say hello) -> attaching (service processes map the ranks) -> running -> ending
//
//   gathering  all local ranks here: attaching.  Time over, a rank or the leader lost: everybody is refused.
//   attaching  every service process has attached every rank: welcome.  A service process fails: everybody is refused.
//   running    the last rank gone: end.  A service process dies: the ranks are told and then ended.
//   ending     ranks that have not gone by themselves get SIGTERM, then SIGKILL.
//
// A rank's malformed or nonsensical message costs that rank its connection and nothing else.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/shared_memory.hpp"
#include "base/unique_fd.hpp"
#include "protocol/control.hpp"
#include "protocol/dpu_link.hpp"
#include "protocol/segment.hpp"
#include "service/keeper/starter.hpp"
#include "service/keeper/stopped_services.hpp"
#include "service/keeper/topology.hpp"

namespace outrigger::service {

struct KeeperConfig {
  std::uint32_t world_size = 0;
  std::uint32_t local_size = 0;
  std::uint32_t nodes = 1;         // of the job
  std::uint32_t keepers_here = 1;  // nodes that this machine pretends to be; they share its cores
  std::uint32_t number_here = 0;   // which of them this is
  std::uint32_t services = 0;      // 0: by itself
  std::vector<int> service_cpus;   // empty: cores free of ranks
  std::uint32_t reach_allowed = kReachAll;
  std::uint32_t hello_timeout_ms = 10000;   // for all ranks to appear
  std::uint32_t attach_timeout_ms = 10000;  // for the service processes to be ready after that
  pid_t leader_pid = 0;                     // 0: none; the job's messages for people go to its standard error
  bool end_ranks = true;                    // SIGTERM and SIGKILL for ranks that stay after a service process has died
  Secret secret{};
  std::string dpu;      // HOST:PORT where `outriggerd dpu` listens; empty: service processes run on this node
  Secret dpu_secret{};  // which it knows, too
};

// Thread rule: everything on one thread, which calls run(); stop() from any.
class Keeper {
 public:
  // `listener`: a listening SOCK_SEQPACKET socket. `starter` must outlive the keeper.
  Keeper(KeeperConfig config, UniqueFd listener, ServiceStarter& starter);
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  // Until the job is over. 0: it ended well; 1: ranks were refused or the job was ended.
  [[nodiscard]] int run();
  // As if every rank had gone.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Phase { gathering, attaching, running, ending, over };
  enum class Watched : std::uint32_t {
    listener,
    stop,
    leader,
    stranger,
    rank,
    rank_exit,
    service,
    service_exit,
    service_state,
    dpu
  };

  struct Region {
    UniqueFd fd;  // kept for a restarted service process
    std::uint64_t base = 0;
    std::uint64_t bytes = 0;
    std::uint32_t answers = 0;
    bool ok = true;
  };
  // Someone connected who has not said hello.
  struct Stranger {
    ControlSocket socket;
    pid_t pid = 0;
    Clock::time_point deadline;
  };
  // Indexed by local rank. Present from hello until it has left.
  struct Rank {
    bool present = false;
    ControlSocket socket;  // closed when it has misbehaved or ended its side
    HelloBody hello;
    pid_t pid = 0;
    UniqueFd exit_event;  // pidfd
    UniqueFd segment_fd;
    Mapping segment;
    std::unordered_map<std::uint32_t, Region> regions;
    std::uint32_t highest_region = 0;
    std::uint32_t sp = 0;
    std::uint32_t wired = 0;     // service processes on a DPU that are connected
    std::uint32_t attached = 0;  // service processes that have answered
    std::uint32_t reach = kReachAll;
  };
  struct QueuedPacket {
    std::vector<std::byte> packet;
    std::vector<UniqueFd> fds;
  };
  // Packets that wait for a service process's full socket. At the limit ranks' further regions are not accepted; what
  // else is sent (drops of regions that were, ranks that leave) is bounded by what has been accepted before.
  static constexpr std::size_t kMaxWaitingPackets = 1024;
  struct ServiceProcess {
    StartedService process;
    ControlSocket socket;
    UniqueFd doorbell;
    ServicePlace place;
    std::deque<QueuedPacket> waiting;  // its socket is full
    std::string last_words;            // its protest about the whole job
    std::vector<std::byte> address;    // on the wire, in a job of several nodes
  };

  // keeper.cpp: the loop and the phases
  void watch(int fd, Watched what, std::uint32_t index, bool writable = false);
  void unwatch(int fd);
  void handle_event(std::uint64_t key);
  void handle_timers();
  [[nodiscard]] int next_timeout_ms() const;
  void refuse_everybody(const std::string& reason);
  void end_when_empty();
  [[nodiscard]] std::uint32_t ranks_present() const;

  // keeper_ranks.cpp: what ranks say and when they go
  void accept_strangers();
  void read_stranger(std::uint32_t index);
  [[nodiscard]] std::optional<std::string> problem_of_hello(const HelloBody& hello) const;
  void refuse(ControlSocket& socket, const std::string& reason);
  void admit(Stranger stranger, const HelloBody& hello);
  void read_rank(std::uint32_t local_rank);
  void add_region(std::uint32_t local_rank, const RegionBody& body, std::vector<UniqueFd>& fds);
  void drop_region(std::uint32_t local_rank, const RegionBody& body);
  void pass_job_map(std::uint32_t local_rank, const SharedBytesBody& body, const UniqueFd& fd);
  void answer_region(Rank& rank, std::uint32_t region, bool ok);
  void disconnect_rank(std::uint32_t local_rank, const std::string& reason);
  void rank_left(std::uint32_t local_rank, const std::string& how);
  [[nodiscard]] std::optional<std::uint32_t> local_rank_of(std::uint32_t world_rank) const;

  // keeper_services.cpp: starting service processes, and what becomes of them
  void start_services();
  [[nodiscard]] Status start_service(const ServicePlace& place);
  [[nodiscard]] Status connect_services();
  void assign_services(const Topology& topology);
  [[nodiscard]] Status introduce_ranks();
  void configure_service(std::uint32_t sp, const Topology& topology);
  void read_service(std::uint32_t sp);
  void handle_service(std::uint32_t sp, ControlMessage& message);
  void rank_attached(const RankAttachedBody& body);
  void wire_address(std::uint32_t sp, const SharedBytesBody& body, const UniqueFd& fd);
  [[nodiscard]] Status send_descriptor();
  void job_map_taken(const JobMapTakenBody& body);
  void region_added(const RegionAddedBody& body);
  void welcome_when_attached();
  void welcome(Rank& rank);
  [[nodiscard]] Status make_segment(Rank& rank);
  // keeper_dpu.cpp: service processes on a DPU
  void start_dpu();
  [[nodiscard]] Status call_dpu();
  [[nodiscard]] Status offer_segments();
  void pass_rank_address(std::uint32_t local_rank, const SharedBytesBody& body, const UniqueFd& fd);
  void rank_wired(const RankWiredBody& body);
  void work_on_dpu();
  void take_dpu_frame(DpuFrame& frame);
  void dpu_lost();
  [[nodiscard]] std::string dpu_name() const;
  [[nodiscard]] std::chrono::milliseconds dpu_call_limit() const;
  [[nodiscard]] std::chrono::milliseconds dpu_attach_limit() const;

  void send_to_service(std::uint32_t sp, std::vector<std::byte> packet, std::span<const int> fds = {});
  template <class T>
  void tell_service(std::uint32_t sp, ControlKind kind, const T& body, std::span<const int> fds = {}) {
    send_to_service(sp, encode_control(kind, body), fds);
  }
  template <class T>
  void tell_services(ControlKind kind, const T& body, std::span<const int> fds = {}) {
    for (std::uint32_t sp = 0; sp < services_.size(); ++sp) tell_service(sp, kind, body, fds);
  }
  [[nodiscard]] bool services_backlogged() const;
  void flush_service(std::uint32_t sp);
  void service_lost(std::uint32_t sp);
  void look_for_stopped_services();
  [[nodiscard]] std::string name_of_service(std::uint32_t sp) const;
  void end_job(const std::string& text);
  void print_for_people(const std::string& text);
  void signal_ranks(int signal);

  KeeperConfig config_;
  UniqueFd listener_;
  ServiceStarter& starter_;
  UniqueFd epoll_;
  UniqueFd stop_event_;
  UniqueFd leader_;  // pidfd
  Phase phase_ = Phase::gathering;
  Clock::time_point phase_began_;
  std::unordered_map<std::uint32_t, Stranger> strangers_;
  std::uint32_t next_stranger_ = 0;
  std::vector<Rank> ranks_;
  std::unordered_map<std::uint32_t, std::uint32_t> local_of_world_;
  std::vector<ServiceProcess> services_;
  StoppedServices stopped_;
  DpuLink dpu_;
  std::string dpu_host_;  // as it names itself
  bool job_map_passed_ = false;
  std::uint32_t job_maps_taken_ = 0;
  int last_signal_ = 0;
  int exit_status_ = 0;
};

}  // namespace outrigger::service
