#include "service/dpu/dpu_daemon.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/shared_memory.hpp"
#include "protocol/dpu_link.hpp"
#include "protocol/job_map.hpp"
#include "protocol/keyed_hash.hpp"
#include "protocol/segment.hpp"
#include "service/dpu/dpu_probe.hpp"
#include "service/keeper/placement.hpp"
#include "service/keeper/starter.hpp"
#include "service/keeper/stopped_services.hpp"
#include "service/keeper/topology.hpp"
#include "service/log.hpp"
#include "service/loop/ring.hpp"

namespace outrigger::service {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kGreetingTime{5};
constexpr std::chrono::milliseconds kTimeToReadRefusals{1500};
constexpr int kLookMs = 500;
constexpr std::size_t kMostSecretBytes = 2048;

struct ServiceHere {
  StartedService process;
  ControlSocket socket;
  UniqueFd doorbell;
  int cpu = -1;
  bool configured = false;
};

Result<UniqueFd> listen_anywhere(std::uint16_t& port) {
  const auto failure = [](const char* what) { return Error{std::string(what) + ": " + std::strerror(errno)}; };
  UniqueFd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_storage place{};
  socklen_t bytes = 0;
  if (fd.valid()) {
    const int off = 0;
    (void)::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    auto& six = reinterpret_cast<sockaddr_in6&>(place);
    six.sin6_family = AF_INET6;
    six.sin6_addr = in6addr_any;
    bytes = sizeof(six);
  }
  if (!fd.valid() || ::bind(fd.get(), reinterpret_cast<sockaddr*>(&place), bytes) != 0) {
    fd.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    auto& four = reinterpret_cast<sockaddr_in&>(place = sockaddr_storage{});
    four.sin_family = AF_INET;
    bytes = sizeof(four);
    if (!fd.valid() || ::bind(fd.get(), reinterpret_cast<sockaddr*>(&place), bytes) != 0) {
      return failure("no port can be had");
    }
  }
  if (::listen(fd.get(), 16) != 0) return failure("cannot listen");
  bytes = sizeof(place);
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&place), &bytes) != 0) return failure("no port can be had");
  port = ntohs(place.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(place).sin6_port
                                           : reinterpret_cast<sockaddr_in&>(place).sin_port);
  return fd;
}

std::uint32_t cores_here() {
  return std::max(1U, std::thread::hardware_concurrency());
}

class DpuDaemon {
 public:
  DpuDaemon(const DpuDaemonOptions& options, std::vector<int> cpus, const Secret& secret, UniqueFd listener)
      : options_(options), cpus_(std::move(cpus)), secret_(secret), listener_(std::move(listener)) {}

  int run() {
    while (!over_) {
      wait();
      if (listener_.valid()) meet();
      if (link_.open() || met_) work();
    }
    // Ranks that are refused have their connections being made, and UCX 1.13 ends a process in which one fails. They
    // are told before this end is, and look no more at the network then.
    if (!services_.empty() && not_attached_ != 0) std::this_thread::sleep_for(kTimeToReadRefusals);
    for (ServiceHere& service : services_) service.socket.close();
    starter_.stop_all();
    return status_;
  }

 private:
  void wait() {
    std::vector<pollfd> awaited{{STDIN_FILENO, POLLIN, 0}};
    const auto await = [&awaited](int fd, short events) {
      if (fd >= 0) awaited.push_back(pollfd{fd, events, 0});
    };
    await(listener_.get(), POLLIN);
    if (link_.open()) await(link_.fd(), static_cast<short>(link_.wants_to_write() ? POLLIN | POLLOUT : POLLIN));
    for (const ServiceHere& service : services_) {
      await(service.socket.fd(), POLLIN);
      if (service.socket.open()) await(service.process.exit_event.get(), POLLIN);
    }
    (void)::poll(awaited.data(), awaited.size(), kLookMs);
    if (awaited[0].revents != 0) look_at_input();
  }

  // Nothing more is expected there but its end.
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

  void meet() {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) return;
    DpuLink link(std::move(socket));
    const Status greeted = link.greet(DpuLink::Side::dpu, secret_, Clock::now() + kGreetingTime);
    if (!greeted) return spdlog::warn("a connection was closed: {}", greeted.error());
    link_ = std::move(link);
    met_ = true;
    listener_.reset();
  }

  void work() {
    const Clock::time_point now = Clock::now();
    link_.work(now);
    while (std::optional<DpuFrame> frame = link_.next()) take(*frame);
    for (std::uint32_t sp = 0; sp < services_.size(); ++sp) read_service(sp);
    const auto stopped = stopped_.look(starter_, static_cast<std::uint32_t>(services_.size()), now);
    if (stopped && services_[*stopped].socket.open()) lose(*stopped, "has been stopped by a signal");
    link_.tick(now);
    if (link_.open() || over_) return;
    const bool in_order = link_.problem() == "the connection was closed";
    end(in_order ? 0 : 1, "the host's keeper: " + link_.problem());
  }

  void say(DpuFrameKind kind, std::uint32_t sp, const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    link_.send(kind, sp, bytes.first(std::min(bytes.size(), kMaxDpuPacketBytes)));
  }

  void take(DpuFrame& frame) {
    if (frame.kind == DpuFrameKind::job) return start(frame);
    if (frame.kind == DpuFrameKind::probe) return answer_probe(link_, frame);
    if (frame.kind != DpuFrameKind::control || frame.sp >= services_.size()) return;
    std::vector<UniqueFd> fds;
    if (!frame.attached.empty()) {
      Result<UniqueFd> shared = share_bytes("outrigger-attached", frame.attached);
      if (!shared) return end(1, shared.error());
      fds.push_back(std::move(shared).value());
    }
    const int fd = fds.empty() ? -1 : fds[0].get();
    const std::size_t count = fds.size();
    Result<ControlMessage> message = decode_control(frame.packet, std::move(fds));
    if (!message) return end(1, "the host's keeper: " + message.error());
    ServiceHere& service = services_[frame.sp];
    if (message.value().kind() == ControlKind::configure) return configure(frame.sp, message.value());
    fds = std::move(message.value().fds());
    (void)service.socket.send_packet(frame.packet, std::span(&fd, count));
  }

  void start(const DpuFrame& frame) {
    const std::optional<DpuJob> job = dpu_packet_as<DpuJob>(frame);
    if (!job || job->local_size == 0 || job->local_size > kMaxLocalRanks || !services_.empty()) {
      return end(1, "the host's keeper asks for a job that makes no sense");
    }
    std::uint32_t count = options_.services != 0 ? options_.services : job->services;
    if (count == 0) count = std::min(default_services(job->local_size), cores_here());
    count = std::clamp(count, 1U, std::min(kMaxServices, job->local_size));
    for (std::uint32_t sp = 0; sp < count; ++sp) {
      Result<StartedService> started = starter_.start();
      if (!started) {
        say(DpuFrameKind::failed, 0, started.error());
        return;
      }
      ServiceHere service;
      service.process = std::move(started).value();
      service.socket = ControlSocket(std::move(service.process.control));
      service.doorbell.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
      if (sp < cpus_.size()) service.cpu = cpus_[sp];
      services_.push_back(std::move(service));
    }
    not_attached_ = std::uint64_t{count} * job->local_size;
    link_.allow_silence(std::chrono::milliseconds(job->attach_limit_ms));
    DpuReady ready;
    ready.services = count;
    (void)::gethostname(ready.name.data(), ready.name.size() - 1);
    link_.send(DpuFrameKind::ready, 0, std::as_bytes(std::span(&ready, 1)));
  }

  // What the host cannot know of this machine.
  void configure(std::uint32_t sp, ControlMessage& message) {
    ServiceHere& service = services_[sp];
    auto body = message.body<ConfigureBody>();
    body.cpu = service.cpu;
    body.core_share = copy::CoreShare::own;
    (void)service.socket.send(ControlKind::configure, body);
    const int bell = service.doorbell.get();
    (void)service.socket.send(ControlKind::doorbell, RankBody{}, std::span(&bell, 1));
    service.configured = true;
    if (std::ranges::all_of(services_, &ServiceHere::configured)) connect_services();
  }

  void connect_services() {
    const Status connected = connect_pairs(
        services_.size(), [this](std::uint32_t sp) { return services_[sp].doorbell.get(); },
        [this](std::uint32_t sp, const PeerRingBody& body, std::span<const int> fds) {
          (void)services_[sp].socket.send(ControlKind::peer_ring, body, fds);
        });
    if (!connected) end(1, "no memory for rings between service processes");
  }

  void read_service(std::uint32_t sp) {
    ServiceHere& service = services_[sp];
    while (service.socket.open()) {
      ControlSocket::Received received = service.socket.receive(0);
      if (received.event == ControlSocket::Event::nothing) return;
      if (received.event != ControlSocket::Event::message) return lose(sp, starter_.how_it_ended(sp));
      std::vector<std::byte> attached;
      if (!received.message->fds().empty()) {
        const auto body = received.message->body<SharedBytesBody>();
        Result<std::vector<std::byte>> bytes =
            read_shared_bytes(received.message->fds()[0].get(), body.bytes, kMaxWireAddressBytes);
        if (bytes) attached = std::move(bytes).value();
      }
      link_.send(DpuFrameKind::control, sp, encode_control(received.message->kind(), received.message->raw_body()),
                 attached);
      const bool another = received.message->kind() == ControlKind::rank_attached && not_attached_ != 0;
      if (another && --not_attached_ == 0) link_.allow_silence(kDpuSilence);
    }
  }

  void lose(std::uint32_t sp, const std::string& what) {
    services_[sp].socket.close();
    const std::string how = fmt::format("(pid {}) {}", services_[sp].process.pid, what);
    spdlog::error("service process {} {}", sp, how);
    std::fprintf(stderr, "outriggerd dpu: service process %u %s\n", sp, how.c_str());
    say(DpuFrameKind::lost, sp, how);
  }

  DpuDaemonOptions options_;
  std::vector<int> cpus_;
  Secret secret_;
  UniqueFd listener_;
  DpuLink link_;
  bool met_ = false;
  ProcessStarter starter_;
  std::vector<ServiceHere> services_;
  StoppedServices stopped_;
  std::uint64_t not_attached_ = 0;  // ranks, counted by each service process, that are still to be reached
  bool over_ = false;
  int status_ = 0;
};

int fail(const std::string& reason) {
  std::printf("outriggerd: dpu failed: %s\n", reason.c_str());
  (void)std::fflush(stdout);
  return 1;
}

}  // namespace

// Byte by byte: what follows the line is not ours to take.
Result<Secret> read_secret_line() {
  std::string line;
  char letter = 0;
  while (line.size() < kMostSecretBytes) {
    const ssize_t got = ::read(STDIN_FILENO, &letter, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || letter == '\n') break;
    line += letter;
  }
  Result<Secret> secret = secret_of_text(line);
  if (!secret) return Error{secret.error() + "; the launcher writes it to standard input"};
  return secret;
}

int run_dpu_daemon(const DpuDaemonOptions& options) {
  (void)::signal(SIGPIPE, SIG_IGN);
  start_log("dpu");
  Result<std::vector<int>> cpus = parse_cpu_list(options.bind);
  if (!cpus) return fail(cpus.error() + " (--bind)");
  const Result<Secret> secret = read_secret_line();
  if (!secret) return fail(secret.error());
  std::uint16_t port = 0;
  Result<UniqueFd> listener = listen_anywhere(port);
  if (!listener) return fail(listener.error());
  std::printf("outriggerd: dpu ready protocol=%u endian=%s port=%u services=%u cores=%u\n", kProtocolVersion,
              std::endian::native == std::endian::little ? "little" : "big", unsigned{port}, options.services,
              cores_here());
  (void)std::fflush(stdout);
  // Whoever reads the line reads no more; what libraries print goes where the rest does.
  (void)::dup2(STDERR_FILENO, STDOUT_FILENO);
  DpuDaemon daemon(options, std::move(cpus).value(), secret.value(), std::move(listener).value());
  return daemon.run();
}

}  // namespace outrigger::service
