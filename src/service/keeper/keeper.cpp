#include "service/keeper/keeper.hpp"

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "service/dpu/host/dpu_services.hpp"
#include "service/dpu/host/fetched_from_dpu.hpp"
#include "service/keeper/observe/counts_of_nodes.hpp"
#include "service/keeper/observe/live_node.hpp"
#include "service/notices/fault_report.hpp"
#include "service/notices/log.hpp"

namespace outrigger::service {
namespace {

// per turn, so that one rank cannot hold up the others
constexpr int kMessagesOfARank = 16;
// `outrigger run` waits a little longer for the keeper's files.
constexpr std::chrono::seconds kForLastEvents{2};
constexpr std::chrono::milliseconds kBetweenLooksForEvents{1};
constexpr const char* kLeaderHasEnded = "the process that started the keeper has ended";

// Needs a descriptor per region and rank and a ring per pair of service processes: raise the soft limit to the hard
// one.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

std::unique_ptr<Services> make_services(const KeeperConfig& config, LocalRanks& ranks, Events& events,
                                        ServiceStarter& starter, OtherNodes& nodes) {
  if (!config.dpu.empty()) return std::make_unique<DpuServices>(config, ranks, events, nodes);
  return std::make_unique<NodeServices>(config, ranks, events, starter, nodes);
}

// Counters must be fetched from the DPU, if the service processes are there.
LiveListener::Preparation figures_of(const std::unique_ptr<Services>& services) {
  return {[&services] {
            if (FetchedFromDpu* of_dpu = services->fetched_from_dpu()) of_dpu->figures.ask();
          },
          [&services] {
            const FetchedFromDpu* of_dpu = services->fetched_from_dpu();
            return of_dpu == nullptr || of_dpu->figures.answered();
          }};
}

}  // namespace

Keeper::Keeper(KeeperConfig config, UniqueFd listener, ServiceStarter& starter)
    : config_(std::move(config)),
      stop_event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      attach_deadline_(events_.now() + std::chrono::milliseconds(config_.init_timeout_ms)),
      rank_listener_(events_, std::move(listener), config_.secret),
      ranks_(events_, config_.world_size, config_.local_size),
      nodes_(config_, events_),
      starter_(starter),
      services_(make_services(config_, ranks_, events_, starter, nodes_)),
      job_map_(config_, nodes_),
      job_end_(config_, ranks_, leader_),
      counts_(config_.local_size),
      traces_(config_.local_size),
      live_(
          events_,
          [this] {
            const FetchedFromDpu* of_dpu = services_->fetched_from_dpu();
            return report::live_frame(live_node(config_.claims.job, counts_, ranks_, *services_, nodes_,
                                                of_dpu != nullptr ? of_dpu->figures.latest() : of_lost_dpu_));
          },
          figures_of(services_)) {
  raise_descriptor_limit();
  events_.watch(stop_event_.get(), {Source::stop, 0});
  if (config_.leader_pid <= 0) return;
  leader_ = exit_event_of(config_.leader_pid);
  if (leader_.valid()) {
    events_.watch(leader_.get(), {Source::leader, 0});
  } else if (errno == ESRCH) {
    refuse_all_ranks(kLeaderHasEnded);
  }
}

int Keeper::run() {
  while (phase_ != Phase::over) {
    for (const Event& event : events_.wait(timeout_ms())) {
      if (phase_ != Phase::over) handle(event);
    }
    if (phase_ != Phase::over) look_at_clock(events_.now());
  }
  write_traces();
  services_->stop();
  gather_counts(counts_, nodes_);
  counts_.write();
  return exit_status_;
}

void Keeper::show_trace(const LocalRank& rank) {
  if (FetchedFromDpu* of_dpu = services_->fetched_from_dpu()) return of_dpu->trace.show(rank, events_.now());
  const int fd = rank.trace_fd.get();
  services_->send(rank.sp, encode_control(ControlKind::trace, RankBody{rank.hello.world_rank, 0}), std::span(&fd, 1));
}

// For ranks that ended without MPI_Finalize: fetches their events from the DPU first.
void Keeper::write_traces() {
  if (!traces_.left()) return;
  if (FetchedFromDpu* of_dpu = services_->fetched_from_dpu()) {
    of_dpu->trace.begin_last_round();
    const Clock::time_point deadline = events_.now() + kForLastEvents;
    while (!of_dpu->trace.last_round_is_over() && !services_->failure() && events_.now() < deadline) {
      (void)services_->receive({Source::clock, 0});
      std::this_thread::sleep_for(kBetweenLooksForEvents);
    }
  }
  traces_.write();
}

void Keeper::stop() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_event_.get(), &one, sizeof(one));
}

void Keeper::enter(Phase phase) {
  assert(phase >= phase_ && "phases only advance");
  phase_ = phase;
}

void Keeper::handle(const Event& event) {
  switch (event.source) {
    case Source::stop: return enter(Phase::over);
    case Source::leader:
      events_.unwatch(leader_.get());
      if (phase_ == Phase::gathering) refuse_all_ranks(kLeaderHasEnded);
      return;
    case Source::listener: return rank_listener_.accept();
    case Source::pending_connection:
      if (std::optional<NewRank> new_rank = rank_listener_.read(event.index)) meet(std::move(*new_rank));
      return;
    case Source::rank: return read_rank(event.index);
    case Source::rank_exit: return rank_left(event.index, "ended");
    case Source::other_node: return;  // OtherNodes::work() runs every turn
    case Source::reader: return live_.handle_event();
    default: return read_services(event);
  }
}

int Keeper::timeout_ms() const {
  std::optional<Clock::time_point> next = rank_listener_.deadline();
  const auto at = [&next](std::optional<Clock::time_point> time) {
    if (time) next = std::min(next.value_or(*time), *time);
  };
  at(services_->next_look());
  at(nodes_.next_look());
  at(live_.next_look());
  if (leaving_) at(leaving_->next_look());
  if (phase_ <= Phase::attaching) at(attach_deadline_);
  if (phase_ == Phase::ending) at(job_end_.next_step());
  if (!next) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - events_.now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 3'600'000));
}

void Keeper::look_at_clock(Clock::time_point now) {
  rank_listener_.expire(now);
  read_services({Source::clock, 0});
  take_node_news();
  live_.look(now);
  if (phase_ == Phase::running && leaving_) go_on_without_dpu();
  if (phase_ == Phase::over) return;
  if (phase_ <= Phase::attaching && now >= attach_deadline_) {
    const std::string within = " within " + std::to_string(config_.init_timeout_ms) + " ms";
    refuse_all_ranks(phase_ == Phase::gathering
                         ? "only " + std::to_string(ranks_.present()) + " of " + std::to_string(config_.local_size) +
                               " ranks of this node appeared" + within
                         : "the service processes were not ready" + within);
  } else if (phase_ == Phase::ending && job_end_.advance(now)) {
    enter(Phase::over);
  }
}

void Keeper::meet(NewRank new_rank) {
  std::optional<std::string> problem = ranks_.problem_of(new_rank.hello);
  if (phase_ != Phase::gathering) problem = "the ranks of this node have gathered already";
  if (problem) return refuse(events_, new_rank.socket, *problem);
  ranks_.admit(std::move(new_rank));
  if (ranks_.present() == ranks_.size()) start_services();
}

// Before any rank was served: all programs run natively.
void Keeper::refuse_all_ranks(const std::string& reason) {
  spdlog::warn("refused: {}", reason);
  for (LocalRank& rank : ranks_) {
    if (rank.present && rank.socket.open()) refuse(events_, rank.socket, reason);
  }
  rank_listener_.refuse_all(reason);
  exit_status_ = 1;
  enter(Phase::over);
}

void Keeper::start_services() {
  enter(Phase::attaching);
  const Clock::time_point began = events_.now();
  if (const Status started = services_->start(); !started) return refuse_all_ranks(started.error());
  attach_deadline_ += events_.now() - began;  // time spent waiting for the DPU does not count
}

void Keeper::welcome_when_attached() {
  const std::uint32_t services = services_->count();
  if (phase_ != Phase::attaching || !job_map_.ready(services) || !ranks_.all_attached_by(services)) return;
  enter(Phase::running);
  services_->attached();
  rank_listener_.shut();
  for (LocalRank& rank : ranks_) {
    if (rank.present) welcome(rank);
  }
  if (config_.nodes == 1 || !ranks_[0].present) return;
  if (const Status sent = job_map_.send_descriptor(ranks_); !sent) disconnect_rank(0, sent.error());
}

void Keeper::welcome(LocalRank& rank) {
  const ServicePlace& place = services_->place(rank.sp);
  WelcomeBody body;
  body.sp = rank.sp;
  body.sp_count = services_->count();
  body.reach = rank.reach;
  body.cpu = place.cpu;
  body.core_share = place.core_share;
  body.other_job = place.other_job;
  const int doorbell = services_->doorbell(rank.sp);
  const std::array<int, 2> fds{rank.segment_fd.get(), doorbell >= 0 ? doorbell : rank.segment_fd.get()};
  if (!rank.tell(ControlKind::welcome, body, fds))
    disconnect_rank(rank.hello.local_rank, "its socket is full: it cannot be welcomed");
}

void Keeper::read_rank(std::uint32_t local_rank) {
  LocalRank& rank = ranks_[local_rank];
  for (int i = 0; i < kMessagesOfARank && rank.present && rank.socket.open() && phase_ != Phase::over; ++i) {
    ControlSocket::Received received = rank.socket.receive(0);
    if (received.event == ControlSocket::Event::nothing) return;
    if (received.event == ControlSocket::Event::malformed) return disconnect_rank(local_rank, received.problem);
    if (received.event == ControlSocket::Event::no_descriptors) {
      return disconnect_rank(local_rank, "the keeper has " + received.problem);
    }
    if (received.event == ControlSocket::Event::closed) {
      const bool will_be_ended = phase_ == Phase::ending && config_.end_ranks && rank.exit_event.valid();
      return will_be_ended ? ranks_.close(local_rank) : rank_left(local_rank, "closed its connection");
    }
    if (received.message->kind() == ControlKind::goodbye) return rank_left(local_rank, "said goodbye");
    const Status taken = take_from_rank(local_rank, *received.message);
    if (!taken) return disconnect_rank(local_rank, taken.error());
  }
}

// Error: the message is malformed.
Status Keeper::take_from_rank(std::uint32_t local_rank, ControlMessage& message) {
  if (message.kind() == ControlKind::rank_address && phase_ == Phase::attaching) {
    return services_->pass_rank_address(ranks_[local_rank], message.body<SharedBytesBody>(), message.fds()[0]);
  }
  if (phase_ != Phase::running && phase_ != Phase::ending) return Error{"a message before the welcome"};
  switch (message.kind()) {
    case ControlKind::region_add:
      return services_->add_region(ranks_[local_rank], message.body<RegionBody>(), std::move(message.fds()[0]));
    case ControlKind::left_dpu:
      return leaving_ ? leaving_->has_left(ranks_[local_rank])
                      : Status(Error{"it detached from a DPU that was not lost"});
    case ControlKind::counts:
      live_.open(config_.claims.job);
      return counts_.take(ranks_[local_rank], std::move(message.fds()[0]));
    case ControlKind::trace: {
      Status taken = traces_.take(ranks_[local_rank], std::move(message.fds()[0]));
      if (taken) show_trace(ranks_[local_rank]);
      return taken;
    }
    case ControlKind::trace_settle:
      if (FetchedFromDpu* of_dpu = services_->fetched_from_dpu()) {
        of_dpu->trace.settle(ranks_[local_rank].hello.world_rank, events_.now());
      } else {
        traces_.mark_settled(local_rank);
      }
      return Done{};
    case ControlKind::region_drop: return services_->drop_region(ranks_[local_rank], message.body<RegionBody>());
    case ControlKind::job_map: {
      const auto body = message.body<SharedBytesBody>();
      const int fd = message.fds()[0].get();
      Status taken = job_map_.take_job_map(local_rank, body, message.fds()[0]);
      if (taken) services_->tell_all(ControlKind::job_map, body, std::span(&fd, 1));
      return taken;
    }
    default: return Error{"an unexpected kind of message"};
  }
}

// The rank's process continues; the closed socket tells it that it is not served any more.
void Keeper::disconnect_rank(std::uint32_t local_rank, const std::string& reason) {
  LocalRank& rank = ranks_[local_rank];
  spdlog::error("rank {} was disconnected: {}", rank.hello.world_rank, reason);
  if (rank.socket.open()) refuse(events_, rank.socket, reason);
  rank_left(local_rank, "was disconnected");
}

void Keeper::rank_left(std::uint32_t local_rank, const std::string& how) {
  if (!ranks_[local_rank].present) return;
  const std::uint32_t world_rank = ranks_[local_rank].hello.world_rank;
  spdlog::info("rank {} (pid {}) {}", world_rank, ranks_[local_rank].pid, how);
  counts_.rank_leaves(ranks_[local_rank]);
  ranks_.leave(local_rank);
  if (phase_ == Phase::gathering || phase_ == Phase::attaching) {
    return refuse_all_ranks("rank " + std::to_string(world_rank) + " " + how + " before all ranks were served");
  }
  if (phase_ == Phase::running) services_->rank_left(ranks_.left().back());
  end_when_empty();
}

void Keeper::read_services(const Event& event) {
  for (ServiceMessage& received : services_->receive(event)) {
    if (phase_ != Phase::over) take_from_service(received.sp, received.message);
  }
  if (const auto warning = services_->take_warning(); warning && phase_ == Phase::running) job_end_.warn(*warning);
  if (!services_->failure()) return;
  const std::string what = *services_->failure();
  if (phase_ != Phase::running || !leave_dpu(what)) service_failed(what);
}

void Keeper::take_from_service(std::uint32_t sp, ControlMessage& message) {
  switch (message.kind()) {
    case ControlKind::rank_attached: {
      const auto body = message.body<RankAttachedBody>();
      const auto local_rank = ranks_.find(body.world_rank);
      if (!local_rank || phase_ != Phase::attaching) return;
      ranks_[*local_rank].attached_by.set(sp);
      ranks_[*local_rank].reach &= body.reach;
      return welcome_when_attached();
    }
    case ControlKind::wire_address: {
      const std::uint32_t times = services_->times_started(sp);
      const Status taken = job_map_.take_address(sp, times, message.body<SharedBytesBody>(), message.fds()[0]);
      return taken ? welcome_when_attached() : refuse_all_ranks(taken.error());
    }
    case ControlKind::job_map_taken: {
      const auto body = message.body<JobMapTakenBody>();
      if (!job_map_.taken(sp, body, services_->count()) || !ranks_[0].present || !ranks_[0].socket.open()) return;
      (void)ranks_[0].tell(ControlKind::job_map_taken, body);
      return;
    }
    case ControlKind::region_added: {
      const auto body = message.body<RegionAddedBody>();
      const auto local_rank = ranks_.find(body.world_rank);
      if (!local_rank) return;  // it has left
      const Status answered = services_->region_added(sp, ranks_[*local_rank], body);
      return answered ? void() : disconnect_rank(*local_rank, answered.error());
    }
    case ControlKind::peer_silent: return nodes_.ask(SpId{message.body<PeerBody>().sp}, events_.now());
    case ControlKind::fault_report: return take_fault_report(message.body<FaultReportBody>());
    default: spdlog::error("service process {} sent a message of kind {}", sp, static_cast<int>(message.kind()));
  }
}

void Keeper::take_fault_report(FaultReportBody fault) {
  fault.reason.back() = '\0';
  if (fault.world_rank == kOtherNode) {
    if (phase_ == Phase::running) end_job(fault.reason.data());
  } else if (const auto local_rank = ranks_.find(fault.world_rank)) {
    disconnect_rank(*local_rank, fault.reason.data());
  }
}

void Keeper::take_node_news() {
  nodes_.work(events_.now());
  for (const OtherNodes::ForServices& news : nodes_.take_news()) {
    const int fd = news.attached.get();
    for (std::uint32_t sp = 0; sp < services_->count(); ++sp) {
      services_->send(sp, news.packet, std::span(&fd, fd >= 0 ? 1 : 0));
    }
  }
  if (nodes_.failure()) service_failed(*nodes_.failure());
}

void Keeper::service_failed(const std::string& what) {
  if (phase_ == Phase::attaching) return refuse_all_ranks(what);
  if (phase_ == Phase::running) end_job(what);
}

bool Keeper::leave_dpu(const std::string& what) {
  const std::optional<std::chrono::milliseconds> rest = services_->replaceable_after();
  if (!rest) return false;
  std::vector<std::uint32_t> times_started;
  for (std::uint32_t sp = 0; sp < services_->count(); ++sp) times_started.push_back(services_->times_started(sp));
  auto instead = std::make_unique<NodeServices>(config_, ranks_, events_, starter_, nodes_);
  if (const Status prepared = instead->prepare_instead(times_started); !prepared) {
    spdlog::error("no service processes on cores of this node: {}", prepared.error());
    return false;
  }
  spdlog::warn("{}; ranks detach from it", what);
  if (const FetchedFromDpu* of_dpu = services_->fetched_from_dpu()) of_lost_dpu_ = of_dpu->figures.latest();
  services_->stop();
  leaving_.emplace(ranks_, what, *rest, events_.now());
  for (std::uint32_t sp = 0; sp < instead->count(); ++sp) nodes_.lost(sp, what);
  instead_of_dpu_ = instead.get();
  services_ = std::move(instead);
  return true;
}

void Keeper::go_on_without_dpu() {
  const Clock::time_point now = events_.now();
  if (leaving_->is_time_to_call(now)) {
    for (LocalRank& rank : ranks_) {
      if (rank.present) leaving_->call(rank, instead_of_dpu_->doorbell(rank.sp));
    }
  }
  if (const auto failure = leaving_->failure(now)) return service_failed(*failure);
  if (!leaving_->over()) return;
  job_end_.warn(leaving_->what() + ": service processes on this node replace it");
  leaving_.reset();
  if (const Status started = instead_of_dpu_->start_instead(); !started) service_failed(started.error());
}

void Keeper::end_job(const std::string& why) {
  enter(Phase::ending);
  exit_status_ = 1;
  counts_.job_ends(why);
  nodes_.close();
  job_end_.begin("outrigger: " + why + "; the job cannot go on", events_.now());
  end_when_empty();
}

void Keeper::end_when_empty() {
  if ((phase_ == Phase::running || phase_ == Phase::ending) && ranks_.present() == 0) enter(Phase::over);
}

}  // namespace outrigger::service
