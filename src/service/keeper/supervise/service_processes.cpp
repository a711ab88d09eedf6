#include "service/keeper/supervise/service_processes.hpp"

#include <fmt/format.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "base/shared_memory.hpp"
#include "protocol/shared/byte_ring.hpp"
#include "service/notices/fault_report.hpp"

namespace outrigger::service {
namespace {

constexpr std::size_t kMaxWaitingPackets = 1024;
// per turn, so that one process cannot hold up the others
constexpr int kMessagesOfOne = 64;

Result<UniqueFd> make_byte_ring() {
  Result<UniqueFd> fd = create_sealed_memory("outrigger-ring", byte_ring_bytes(), Backing::on_touch);
  if (!fd) return fd;
  const Result<Mapping> mapping = Mapping::map(fd.value().get(), byte_ring_bytes());
  if (!mapping) return Error{mapping.error()};
  initialize_byte_ring(mapping.value().base());
  return fd;
}

constexpr const char* kStoppedForLong = "has been stopped by a signal";

// Lets it run on any core that this process may use.
void allow_all_cores(pid_t pid) {
  cpu_set_t cpus;
  if (::sched_getaffinity(0, sizeof(cpus), &cpus) == 0) (void)::sched_setaffinity(pid, sizeof(cpus), &cpus);
  (void)::kill(pid, SIGKILL);
}

// True if a sleeping process has something to do.
bool work_waits(const UniqueFd& doorbell, const QueuedSocket& socket) {
  pollfd rung{doorbell.get(), POLLIN, 0};
  if (::poll(&rung, 1, 0) > 0) return true;
  int unread = 0;
  return socket.waiting() != 0 || (::ioctl(socket.fd(), SIOCOUTQ, &unread) == 0 && unread > 0);
}

}  // namespace

std::optional<OperationId> last_taken(const ServicePages* shown) {
  if (shown == nullptr || shown->heartbeat.operations.load(std::memory_order_acquire) == 0) return std::nullopt;
  return shown->heartbeat.last_taken();
}

std::string where_it_was(const ServicePages* shown) {
  const std::optional<OperationId> last = last_taken(shown);
  if (!last) return {};
  const std::uint32_t collective = shown->heartbeat.collective.load(std::memory_order_relaxed);
  return fmt::format(" after it had taken {}, number {} of communicator {:016x}{:016x}",
                     name_of(static_cast<Collective>(collective)), last->sequence, last->group.high, last->group.low);
}

ServiceProcesses::ServiceProcesses(ServiceStarter& starter, Events& events) : starter_(starter), events_(events) {
  if (starter_.state_event() >= 0) events_.watch(starter_.state_event(), {Source::service_state, 0});
}

Status ServiceProcesses::start(std::uint32_t sp) {
  assert(sp <= processes_.size() && sp < kMaxServices);
  Result<StartedService> started = starter_.start(sp);
  if (!started) return Error{started.error()};
  if (sp == processes_.size()) processes_.emplace_back();
  Process& process = processes_[sp];
  assert(!process.socket.open());
  process.pid = started.value().pid;
  process.socket = QueuedSocket(std::move(started.value().control));
  process.exit_event = std::move(started.value().exit_event);
  process.fault.clear();
  process.given_up.clear();
  process.begins_anew = false;
  hung_.forget(sp);
  process.connected.reset();
  for (Process& other : processes_) other.connected.reset(sp);
  ++process.times_started;
  if (Status has_doorbell = process.have_doorbell(); !has_doorbell) return has_doorbell;
  processes_[sp].watch(events_, sp);
  return Done{};
}

Status ServiceProcesses::Process::have_doorbell() {
  if (!doorbell.valid()) doorbell.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!doorbell.valid()) return Error{std::string("cannot make a doorbell: ") + std::strerror(errno)};
  return Done{};
}

Status ServiceProcesses::take_after(std::span<const std::uint32_t> times_started) {
  assert(processes_.empty());
  for (const std::uint32_t times : times_started) {
    Process& process = processes_.emplace_back();
    process.times_started = times;
    if (Status has_doorbell = process.have_doorbell(); !has_doorbell) return has_doorbell;
  }
  return Done{};
}

Status ServiceProcesses::start_standby() {
  const std::uint32_t place = has_standby() ? count() - 1 : count();  // number of the standby; it may be restarted
  if (Status started = start(place); !started) return started;
  processes_.back().is_standby = true;
  return Done{};
}

// The new process takes over the number with its messages; the published pages of the standby are dropped.
void ServiceProcesses::replace(std::uint32_t sp) {
  assert(has_standby() && sp + 1 < count() && !processes_[sp].socket.open());
  starter_.renumber(count() - 1, sp);
  const std::uint32_t times = processes_[sp].times_started;
  processes_[sp] = std::move(processes_.back());
  processes_.pop_back();
  processes_[sp].times_started = times + 1;
  processes_[sp].is_standby = false;
  hung_.forget(sp);
  for (Process& other : processes_) other.connected.reset(sp);
  processes_[sp].watch(events_, sp);
}

Status ServiceProcesses::connect(std::uint32_t sp) {
  for (std::uint32_t peer = 0; peer < count(); ++peer) {
    const Process& other = processes_[peer];
    if (peer == sp || !other.socket.open() || other.is_standby || processes_[sp].connected.test(peer)) continue;
    const Result<UniqueFd> forth = make_byte_ring();
    if (!forth) return Error{forth.error()};
    const Result<UniqueFd> back = make_byte_ring();
    if (!back) return Error{back.error()};
    const std::array<int, 3> for_one{forth.value().get(), back.value().get(), doorbell(peer)};
    const std::array<int, 3> for_peer{back.value().get(), forth.value().get(), doorbell(sp)};
    tell(sp, ControlKind::peer_ring, PeerRingBody{peer, times_started(peer)}, for_one);
    tell(peer, ControlKind::peer_ring, PeerRingBody{sp, times_started(sp)}, for_peer);
    processes_[sp].connected.set(peer);
    processes_[peer].connected.set(sp);
  }
  return Done{};
}

void ServiceProcesses::Process::watch(Events& events, std::uint32_t sp) const {
  events.watch(socket.fd(), {Source::service, sp}, socket.waiting() != 0);
  if (exit_event.valid()) events.watch(exit_event.get(), {Source::service_exit, sp});
}

void ServiceProcesses::send(std::uint32_t sp, std::vector<std::byte> packet, std::span<const int> fds) {
  QueuedSocket& socket = processes_[sp].socket;
  if (!socket.open()) return;
  socket.send(std::move(packet), fds);
  if (socket.waiting() == 1) processes_[sp].watch(events_, sp);
}

bool ServiceProcesses::backlogged() const {
  return std::ranges::any_of(processes_,
                             [](const Process& process) { return process.socket.waiting() >= kMaxWaitingPackets; });
}

// A process that an event names may have been lost since.
std::vector<ServiceMessage> ServiceProcesses::receive(const Event& event) {
  std::vector<ServiceMessage> messages;
  const bool of_one = event.source == Source::service || event.source == Source::service_exit;
  if (of_one && event.index >= count()) return messages;  // it has another number now
  switch (event.source) {
    case Source::service: read(event.index, messages); break;
    case Source::service_exit: ended(event.index, messages); break;
    case Source::service_state: starter_.clear_state_event(); break;
    default: break;
  }
  if (of_one || (event.source != Source::service_state && !any_stopped())) return messages;
  const auto stopped = stopped_.look(starter_, count(), events_.now());
  if (stopped) give_up(*stopped, kStoppedForLong);
  return messages;
}

void ServiceProcesses::read(std::uint32_t sp, std::vector<ServiceMessage>& messages) {
  QueuedSocket& socket = processes_[sp].socket;
  if (!socket.open()) return;
  if (socket.waiting() != 0) {
    socket.flush();
    if (socket.waiting() == 0) processes_[sp].watch(events_, sp);
  }
  for (int i = 0; i < kMessagesOfOne; ++i) {
    ControlSocket::Received received = socket.receive();
    if (received.event == ControlSocket::Event::nothing) return;
    if (received.event != ControlSocket::Event::message) return closed(sp, received, messages);
    sort(sp, std::move(*received.message), messages);
  }
}

// A fault report about the whole job is kept as the reason of its end.
void ServiceProcesses::sort(std::uint32_t sp, ControlMessage message, std::vector<ServiceMessage>& messages) {
  if (message.kind() == ControlKind::fault_report) {
    auto fault = message.body<FaultReportBody>();
    fault.reason.back() = '\0';
    if (fault.world_rank == kWholeJob) {
      processes_[sp].fault = fault.reason.data();
      return;
    }
    if (fault.world_rank == kBeginAnew) {
      processes_[sp].begins_anew = true;
      return give_up(sp, fault.reason.data());
    }
  }
  messages.push_back({sp, std::move(message)});
}

// It sends nothing more, but may still run: its replacement must wait for its end, which takes time on a busy core.
void ServiceProcesses::closed(std::uint32_t sp, const ControlSocket::Received& last,
                              std::vector<ServiceMessage>& messages) {
  Process& process = processes_[sp];
  if (!process.exit_event.valid()) return ended(sp, messages);
  if (last.event != ControlSocket::Event::closed && process.fault.empty()) process.fault = last.problem;
  events_.unwatch(process.socket.fd());
  allow_all_cores(process.pid);
}

// From its unread messages only fault reports matter.
void ServiceProcesses::ended(std::uint32_t sp, std::vector<ServiceMessage>& messages) {
  Process& process = processes_[sp];
  if (!process.socket.open()) return;  // known already
  while (process.fault.empty()) {
    ControlSocket::Received received = process.socket.receive();
    if (received.event != ControlSocket::Event::message) break;
    if (received.message->kind() == ControlKind::fault_report) sort(sp, std::move(*received.message), messages);
    if (!process.socket.open()) return;  // it has asked to be replaced
  }
  const std::string how = starter_.how_it_ended(sp);
  lose(sp, process.given_up.empty() ? how : process.given_up, process.begins_anew || starter_.was_killed(sp));
}

void ServiceProcesses::give_up(std::uint32_t sp, const std::string& why) {
  Process& process = processes_[sp];
  if (!process.socket.open() || !process.given_up.empty()) return;
  process.given_up = why;
  if (!process.exit_event.valid()) lose(sp, why, process.begins_anew);
  allow_all_cores(process.pid);  // it must not work beside its replacement, or end as if the job had ended well
}

void ServiceProcesses::show_heartbeat(std::uint32_t sp) {
  Process& process = processes_[sp];
  if (!process.shown.valid()) {
    Result<UniqueFd> fd = create_sealed_memory("outrigger-heartbeat", kServicePagesBytes, Backing::reserved);
    Result<Mapping> mapping =
        fd ? Mapping::map(fd.value().get(), kServicePagesBytes) : Result<Mapping>(Error{fd.error()});
    if (!mapping) return;  // it is not watched
    process.shown = std::move(mapping).value();
    process.shown_fd = std::move(fd).value();
  }
  const int fd = process.shown_fd.get();
  tell(sp, ControlKind::heartbeat, RankBody{}, std::span(&fd, 1));
}

ServicePages* ServiceProcesses::shown(std::uint32_t sp) const {
  const Mapping& mapping = processes_[sp].shown;
  return mapping.valid() ? reinterpret_cast<ServicePages*>(mapping.base()) : nullptr;
}

void ServiceProcesses::look_for_hung(const std::bitset<kMaxServices>& have_posts) {
  for (std::uint32_t sp = 0; sp < count(); ++sp) {
    const Process& process = processes_[sp];
    const ServicePages* pages = shown(sp);
    if (!process.socket.open() || pages == nullptr) continue;
    const std::optional<ProcessSign> sign = sign_of_process(process.pid);
    if (!sign) continue;
    const bool in_its_work = pages->heartbeat.asleep.load(std::memory_order_relaxed) == 0;
    const bool waits = in_its_work || have_posts.test(sp) || work_waits(process.doorbell, process.socket);
    const auto why = hung_.look(sp, {pages->heartbeat.turns.load(std::memory_order_relaxed), waits, *sign});
    if (why) give_up(sp, *why);
  }
}

void ServiceProcesses::lose(std::uint32_t sp, const std::string& how, bool killed) {
  Process& process = processes_[sp];
  events_.unwatch(process.socket.fd());
  events_.unwatch(process.exit_event.get());
  process.socket.close();
  const std::string& words = process.fault;
  lost_.push_back({sp, process.pid, words.empty() ? how : how + " (" + words + ")", killed && words.empty()});
}

void ServiceProcesses::stop() {
  for (std::uint32_t sp = 0; sp < count(); ++sp) {
    Process& process = processes_[sp];
    tell(sp, ControlKind::goodbye, RankBody{});
    events_.unwatch(process.socket.fd());
    process.socket.close();
  }
  starter_.stop_all();
}

}  // namespace outrigger::service
