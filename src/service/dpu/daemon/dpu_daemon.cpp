#include "service/dpu/daemon/dpu_daemon.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <bitset>
#include <cstdio>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/any_port.hpp"
#include "proof/dpu_handshake.hpp"
#include "protocol/build_version.hpp"
#include "protocol/options/cpu_list.hpp"
#include "protocol/options/secret_text.hpp"
#include "protocol/wire/dpu_link.hpp"
#include "service/dpu/daemon/dpu_probe.hpp"
#include "service/dpu/daemon/kept_events.hpp"
#include "service/dpu/daemon/kept_figures.hpp"
#include "service/dpu/dpu_control.hpp"
#include "service/keeper/events.hpp"
#include "service/keeper/supervise/service_processes.hpp"
#include "service/keeper/supervise/starter.hpp"
#include "service/notices/log.hpp"
#include "service/placement/cores.hpp"
#include "service/placement/service_placement.hpp"

namespace outrigger::service {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kHandshakeLimit{5};
constexpr std::chrono::milliseconds kTimeToReadRefusals{1500};
constexpr int kLookMs = 500;
constexpr const char* kNoRings = "no memory for rings between service processes";
constexpr int kMostCallersWaiting = 16;        // backlog of the listener
constexpr std::size_t kMostPendingHosts = 32;  // when there are more, the oldest one is closed

std::uint32_t cores_here() {
  return std::max(1U, std::thread::hardware_concurrency());
}

class DpuDaemon {
 public:
  DpuDaemon(const DpuDaemonOptions& options, std::vector<int> cpus, const Secret& secret, UniqueFd listener)
      : options_(options), cpus_(std::move(cpus)), secret_(secret), listener_(std::move(listener)) {
    events_.watch(listener_.get(), {Source::listener, 0});
    if (!events_.watch(STDIN_FILENO, {Source::launcher, 0})) end(0, "the standard input is closed");
  }

  int run() {
    while (!over_) {
      for (const Event& event : events_.wait(kLookMs)) handle(event);
      if (met_) work();
      expire();
    }
    // UCX 1.13 aborts when a connection that is being made fails. Refused ranks get time to read the refusal and to
    // stop using the network before this process ends.
    if (services_.count() != 0 && not_attached_ != 0) std::this_thread::sleep_for(kTimeToReadRefusals);
    services_.stop();
    return status_;
  }

 private:
  struct PendingConnection {
    PendingConnection(UniqueFd connected, const Secret& secret, Clock::time_point now)
        : socket(std::move(connected)), handshake(socket.get(), proof::DpuHandshake::Side::dpu, secret), came(now) {}
    UniqueFd socket;
    proof::DpuHandshakeSocket handshake;
    Clock::time_point came;
  };

  void drop(std::map<std::uint32_t, PendingConnection>::iterator connection, const std::string& why) {
    spdlog::warn("a connection was closed: {}", why);
    events_.unwatch(connection->second.socket.get());
    pending_.erase(connection);
  }

  void handle(const Event& event) {
    switch (event.source) {
      case Source::launcher: return look_at_input();
      case Source::listener: return accept();
      case Source::pending_connection: return listen_to(event.index);
      case Source::dpu_link: return;
      default: return pass_on(event);
    }
  }

  // The host's keeper sends nothing more: only the end of the input is expected.
  void look_at_input() {
    std::array<char, 256> ignored{};
    if (::read(STDIN_FILENO, ignored.data(), ignored.size()) == 0) end(0, "the launcher has gone");
  }

  void end(int status, const std::string& why) {
    spdlog::info("{}", why);
    if (status != 0) std::fprintf(stderr, "outriggerd dpu: %s\n", why.c_str());
    over_ = true;
    status_ = status;
  }

  // A caller is pending until its handshake is complete, so a silent one does not hold up the others.
  void accept() {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) return;
    if (pending_.size() == kMostPendingHosts) drop(pending_.begin(), "too many connections");
    const std::uint32_t number = next_number_++;
    const int fd = socket.get();
    pending_.try_emplace(number, std::move(socket), secret_, events_.now());
    events_.watch(fd, {Source::pending_connection, number});
    listen_to(number);
  }

  void listen_to(std::uint32_t number) {
    const auto connection = pending_.find(number);
    if (connection == pending_.end()) return;
    if (const Status went = connection->second.handshake.go_on(); !went) return drop(connection, went.error());
    if (!connection->second.handshake.done()) return;
    events_.unwatch(connection->second.socket.get());
    link_ = DpuLink(std::move(connection->second.socket));
    met_ = true;
    while (!pending_.empty()) drop(pending_.begin(), "the host's keeper is here");
    events_.unwatch(listener_.get());
    listener_.reset();
  }

  void expire() {
    const Clock::time_point now = events_.now();
    while (!pending_.empty() && now - pending_.begin()->second.came > kHandshakeLimit) {
      drop(pending_.begin(), "no handshake in time");
    }
  }

  void work() {
    const Clock::time_point now = events_.now();
    link_.work(now);
    while (const std::optional<DpuFrame> frame = link_.next()) take(*frame);
    look_for_hung(now);
    if (link_.open()) let_work_until(std::min(link_.holds_until(), now + kDpuWorkAfterLook));
    pass_on({Source::clock, 0});
    link_.tick(now);
    if (link_.open()) {
      events_.watch(link_.fd(), {Source::dpu_link, 0}, link_.wants_to_write());
    } else if (!over_) {
      const bool in_order = link_.problem() == "the connection was closed";
      end(in_order ? 0 : 1, "the host's keeper: " + link_.problem());
    }
  }

  // Service processes check their ranks now and then even while they sleep. One that makes no turn is hung.
  void look_for_hung(Clock::time_point now) {
    if (places_ == 0 || not_attached_ != 0 || now - looked_for_hung_ < HungServices::kBetweenLooks) return;
    looked_for_hung_ = now;
    services_.look_for_hung(std::bitset<kMaxServices>().set());
  }

  // If the host's keeper receives nothing from this process for long, it starts replacements on the host.
  void let_work_until(Clock::time_point until) {
    const std::int64_t until_ns = std::chrono::nanoseconds(until.time_since_epoch()).count();
    for (std::uint32_t sp = 0; sp < services_.count(); ++sp) {
      if (ServicePages* shown = services_.shown(sp)) {
        shown->heartbeat.may_work_until_ns.store(until_ns, std::memory_order_relaxed);
      }
    }
  }

  void send_text(DpuFrameKind kind, std::uint32_t sp, const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    link_.send(kind, sp, bytes.first(std::min(bytes.size(), kMaxDpuPacketBytes)));
  }

  void take(const DpuFrame& frame) {
    if (frame.kind == DpuFrameKind::job) return start(frame);
    if (frame.kind == DpuFrameKind::probe) return answer_probe(link_, frame);
    if (frame.kind == DpuFrameKind::standby) return start_standby(frame.sp);
    if (frame.kind == DpuFrameKind::replace) return replace(frame.sp);
    if (frame.kind == DpuFrameKind::trace) return keep_events(frame);
    if (frame.kind == DpuFrameKind::trace_ask || frame.kind == DpuFrameKind::figures_ask) return answer(frame);
    const std::optional<std::uint32_t> sp = number_of(frame.sp);
    if (frame.kind != DpuFrameKind::control || !sp) return;
    Result<ControlMessage> message = control_of(frame);
    if (!message) return end(1, "the host's keeper: " + message.error());
    if (message.value().kind() == ControlKind::configure) {
      return configure(*sp, message.value().body<ConfigureBody>());
    }
    if (message.value().kind() == ControlKind::take_place) {
      return take_place(*sp, message.value().body<TakePlaceBody>());
    }
    services_.send(*sp, frame.packet, raw_fds(message.value()));
  }

  // nullopt: the process that the host's keeper calls `called` is gone.
  [[nodiscard]] std::optional<std::uint32_t> number_of(std::uint32_t called) const {
    if (called < places_) return called;
    if (services_.has_standby() && called == standby_) return places_;
    return std::nullopt;
  }
  [[nodiscard]] std::uint32_t called(std::uint32_t sp) const { return sp < places_ ? sp : standby_; }

  void start_standby(std::uint32_t called) {
    if (places_ == 0 || places_ == kMaxServices || called < dpu_standby(0)) return end(1, "the host's keeper errs");
    standby_ = called;
    if (const Status started = services_.start_standby(); !started) {
      send_lost(called, LostService{places_, 0, "cannot be started: " + started.error(), false});
    }
  }

  // Until the next message about the new process, nothing else is said about this number.
  void replace(std::uint32_t sp) {
    if (sp >= places_ || !services_.has_standby()) return;
    counted_.keep(services_.shown(sp));
    services_.replace(sp);
  }

  void take_place(std::uint32_t sp, TakePlaceBody body) {
    body.cpu = cpu_of(sp);
    services_.tell(sp, ControlKind::take_place, body);
    if (!services_.connect(sp)) end(1, kNoRings);
    for (const KeptEvents::OfRank& rank : events_of_ranks_.of_place(sp)) show_trace(sp, rank);
  }

  void keep_events(const DpuFrame& frame) {
    const std::optional<DpuTraced> wanted = decoded<DpuTraced>(frame.packet);
    if (!wanted || frame.sp >= places_) return end(1, "the host's keeper sent a malformed trace request");
    const Result<KeptEvents::OfRank> kept = events_of_ranks_.add(wanted->world_rank, frame.sp);
    if (!kept) return spdlog::warn("no trace for rank {}: {}", wanted->world_rank, kept.error());
    show_trace(frame.sp, kept.value());
  }

  void show_trace(std::uint32_t sp, const KeptEvents::OfRank& rank) {
    services_.tell(sp, ControlKind::trace, RankBody{rank.world_rank, 0}, std::span(&rank.fd, 1));
  }

  // Answers a question of the trace or of the live figures.
  void answer(const DpuFrame& frame) {
    if (const auto ask = decoded<DpuTraceAsk>(frame.packet); ask && frame.kind == DpuFrameKind::trace_ask) {
      return events_of_ranks_.answer(link_, *ask);
    }
    const auto ask = decoded<DpuFiguresAsk>(frame.packet);
    if (!ask || frame.kind != DpuFrameKind::figures_ask) {
      return end(1, "the host's keeper sent a malformed question");
    }
    std::vector<const ServicePages*> shown;
    for (std::uint32_t sp = 0; sp < services_.count(); ++sp) shown.push_back(services_.shown(sp));
    counted_.answer(link_, *ask, shown);
  }

  [[nodiscard]] int cpu_of(std::uint32_t sp) const { return sp < cpus_.size() && sp < places_ ? cpus_[sp] : -1; }

  void start(const DpuFrame& frame) {
    const std::optional<DpuJob> job = decoded<DpuJob>(frame.packet);
    if (!job || job->local_size == 0 || job->local_size > kMaxLocalRanks || services_.count() != 0) {
      return end(1, "the host's keeper sent a malformed job");
    }
    std::uint32_t count = options_.services != 0 ? options_.services : job->services;
    if (count == 0) count = std::min(default_services(job->local_size), cores_here());
    count = std::clamp(count, 1U, std::min(kMaxServices - 1, job->local_size));  // one more: the standby
    for (std::uint32_t sp = 0; sp < count; ++sp) {
      if (const Status started = services_.start(sp); !started)
        return send_text(DpuFrameKind::failed, 0, started.error());
    }
    places_ = count;
    not_attached_ = std::uint64_t{count} * job->local_size;
    link_.allow_silence(std::chrono::milliseconds(job->attach_limit_ms));
    DpuReady ready;
    ready.services = count;
    (void)::gethostname(ready.name.data(), ready.name.size() - 1);
    link_.send(DpuFrameKind::ready, 0, encoded(ready));
  }

  // The host's keeper knows the whole configuration except the core, and sends no secret.
  void configure(std::uint32_t sp, ConfigureBody body) {
    body.cpu = cpu_of(sp);
    body.dpu_secret = secret_;
    services_.tell(sp, ControlKind::configure, body);
    services_.show_heartbeat(sp);
    const int bell = services_.doorbell(sp);
    services_.tell(sp, ControlKind::doorbell, RankBody{}, std::span(&bell, 1));
    if (sp == places_) return;  // the standby
    configured_.set(sp);
    if (configured_.count() != places_) return;
    for (std::uint32_t one = 0; one < places_; ++one) {
      if (!services_.connect(one)) return end(1, kNoRings);
    }
  }

  void pass_on(const Event& event) {
    for (ServiceMessage& from : services_.receive(event)) {
      ControlMessage& message = from.message;
      send_control(link_, called(from.sp), encode_control(message.kind(), message.raw_body()), raw_fds(message));
      const bool reached = message.kind() == ControlKind::rank_attached && from.sp < places_;
      const bool another = reached && not_attached_ != 0;
      if (another && --not_attached_ == 0) link_.allow_silence(kDpuSilence);
    }
    for (const LostService& lost : services_.take_lost()) {
      spdlog::error("service process {} (pid {}) {}", lost.sp, lost.pid, lost.how);
      send_lost(called(lost.sp), lost);
    }
  }

  void send_lost(std::uint32_t called, const LostService& lost) {
    DpuLost said;
    said.killed = lost.killed ? 1 : 0;
    const ServicePages* shown = lost.pid != 0 ? services_.shown(lost.sp) : nullptr;
    if (const std::optional<OperationId> last = last_taken(shown)) {
      said.has_taken = 1;
      said.group_high = last->group.high;
      said.group_low = last->group.low;
      said.sequence = last->sequence;
    }
    const std::string how = fmt::format("(pid {}) {}{}", lost.pid, lost.how, where_it_was(shown));
    how.copy(said.how.data(), said.how.size() - 1);
    link_.send(DpuFrameKind::lost, called, encoded(said));
  }

  static std::vector<int> raw_fds(ControlMessage& message) {
    std::vector<int> raw;
    for (const UniqueFd& fd : message.fds()) raw.push_back(fd.get());
    return raw;
  }

  DpuDaemonOptions options_;
  std::vector<int> cpus_;
  Secret secret_;
  Events events_;
  UniqueFd listener_;
  std::map<std::uint32_t, PendingConnection> pending_;  // by time of arrival
  std::uint32_t next_number_ = 0;
  DpuLink link_;  // to the host's keeper; closed until the handshake
  bool met_ = false;
  ProcessStarter starter_;
  ServiceProcesses services_{starter_, events_};
  std::uint32_t places_ = 0;   // service processes that serve ranks; the next number is the standby
  std::uint32_t standby_ = 0;  // the standby's number at the host's keeper
  std::bitset<kMaxServices> configured_;
  Clock::time_point looked_for_hung_;
  KeptEvents events_of_ranks_;  // used only if there is a trace
  KeptFigures counted_;
  std::uint64_t not_attached_ = 0;  // pairs of a service process and a rank without a connection
  bool over_ = false;
  int status_ = 0;
};

int fail(const std::string& reason) {
  std::printf("outriggerd: dpu failed: %s\n", reason.c_str());
  (void)std::fflush(stdout);
  return 1;
}

}  // namespace

int run_dpu_daemon(const DpuDaemonOptions& options) {
  (void)::signal(SIGPIPE, SIG_IGN);
  start_log("dpu");
  Result<std::vector<int>> cpus = parse_cpu_list(options.bind);
  if (!cpus) return fail(cpus.error() + " (--bind)");
  const Result<Secret> secret = read_secret_line();
  if (!secret) return fail(secret.error());
  Result<ListeningPort> listener = listen_at_any_port(kMostCallersWaiting);
  if (!listener) return fail(listener.error());
  std::printf("outriggerd: dpu ready protocol=%u endian=%s port=%u services=%u cores=%u\n", kProtocolVersion,
              std::endian::native == std::endian::little ? "little" : "big", unsigned{listener.value().port},
              options.services, cores_here());
  (void)std::fflush(stdout);
  // The launcher reads one line of standard output. Output of libraries goes to standard error.
  (void)::dup2(STDERR_FILENO, STDOUT_FILENO);
  DpuDaemon daemon(options, std::move(cpus).value(), secret.value(), std::move(listener.value().socket));
  return daemon.run();
}

}  // namespace outrigger::service
