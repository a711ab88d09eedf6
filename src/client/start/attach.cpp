#include "client/start/attach.hpp"

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <thread>

#include "base/shared_memory.hpp"
#include "client/start/abstract_socket.hpp"

namespace outrigger::client {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kConnectInterval{2};
// A share of the keeper's limit, so that the keeper can report a failure before the rank times out. It waits longer for
// a DPU.
constexpr std::uint32_t kMomentShare = 8;
constexpr std::uint32_t kMomentShareOnDpu = 2;

std::string_view name_of(const KeeperAddress& keeper) {
  return {keeper.name.data(), ::strnlen(keeper.name.data(), keeper.name.size())};
}

std::chrono::milliseconds patience_with_keeper(const AttachOptions& options) {
  const std::uint32_t limit_ms = options.init_timeout_ms;
  return std::chrono::milliseconds(limit_ms + limit_ms / (options.dpu ? kMomentShareOnDpu : kMomentShare));
}

int milliseconds_left(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::clamp<std::chrono::milliseconds::rep>(left.count(), 0, 1 << 30));
}

Result<UniqueFd> connect_until(const KeeperAddress& keeper, Clock::time_point deadline) {
  const std::string name(name_of(keeper));
  if (name.empty()) return Error{"the keeper's address is empty: it was not started"};
  UniqueFd fd;
  while (true) {
    switch (connect_to(name, fd)) {
      case ConnectOutcome::connected: return fd;
      case ConnectOutcome::failed:
        return Error{"cannot connect to the keeper at @" + name + ": " + std::strerror(errno)};
      case ConnectOutcome::nobody:  // the address was known only after a listener existed
        return Error{"no keeper listens at @" + name + ": it was not started in this network namespace or has ended"};
      case ConnectOutcome::later: break;
    }
    if (Clock::now() >= deadline) return Error{"the keeper at @" + name + " does not accept connections"};
    std::this_thread::sleep_for(kConnectInterval);
  }
}

// Any user may take an abstract name: only connects to the same user.
Status check_owner(const UniqueFd& fd) {
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) {
    return Error{std::string("cannot read the user of the keeper's socket: ") + std::strerror(errno)};
  }
  if (peer.uid != ::geteuid()) {
    return Error{"the keeper's socket belongs to user " + std::to_string(peer.uid) + ", not to this user"};
  }
  return Done{};
}

std::array<std::uint64_t, kMaxCpus / 64> own_affinity() {
  // Larger than the masks in use: the kernel rejects sets smaller than its own.
  constexpr int kKernelCpus = 16384;
  std::array<std::uint64_t, kKernelCpus / 64> all{};
  std::array<std::uint64_t, kMaxCpus / 64> mask{};
  if (::sched_getaffinity(0, sizeof(all), reinterpret_cast<cpu_set_t*>(all.data())) == 0) {
    std::copy_n(all.begin(), mask.size(), mask.begin());
  }
  return mask;
}

// nullptr: no memory.
ProbePointer make_probe() {
  void* page = ::mmap(nullptr, sizeof(Probe), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  ProbePointer probe(new (page) Probe);
  std::uint64_t value = 0;
  // Any value works; a random one is unlikely to be in another process's memory.
  if (::getrandom(&value, sizeof(value), GRND_NONBLOCK) != static_cast<ssize_t>(sizeof(value))) {
    value = reinterpret_cast<std::uintptr_t>(probe.get()) ^ static_cast<std::uint64_t>(::getpid());
  }
  probe->word.store(value, std::memory_order_release);
  return probe;
}

HelloBody make_hello(const AttachOptions& options, const Probe& probe, const XpmemSegment& xpmem) {
  HelloBody hello;
  hello.secret = options.keeper.secret;
  hello.world_rank = options.world_rank.value();
  hello.world_size = options.world_size;
  hello.local_rank = options.local_rank;
  hello.local_size = options.local_size;
  hello.probe_address = reinterpret_cast<std::uintptr_t>(&probe.word);
  hello.probe_value = probe.word.load(std::memory_order_relaxed);
  hello.xpmem_segment = xpmem.id();
  hello.affinity = own_affinity();
  return hello;
}

Result<ControlMessage> checked(ControlSocket::Received received, ControlKind wanted, const AttachOptions& options) {
  switch (received.event) {
    case ControlSocket::Event::nothing:
      return Error{"the keeper did not answer within " + std::to_string(options.init_timeout_ms) + " ms; do all " +
                   std::to_string(options.local_size) + " ranks of this node attach?"};
    case ControlSocket::Event::closed: return Error{"the keeper closed the connection instead of welcoming this rank"};
    case ControlSocket::Event::malformed: return Error{"the keeper sent a malformed message: " + received.problem};
    case ControlSocket::Event::no_descriptors: return Error{received.problem};
    case ControlSocket::Event::message: break;
  }
  if (received.message->kind() == ControlKind::refused) {
    const auto body = received.message->body<RefusedBody>();
    return Error{"the keeper refused this rank: " +
                 std::string(body.reason.data(), ::strnlen(body.reason.data(), body.reason.size()))};
  }
  if (received.message->kind() != wanted) return Error{"the keeper sent an unexpected message"};
  return std::move(*received.message);
}

Result<ControlMessage> wait_for(ControlKind wanted, ControlSocket& socket, const AttachOptions& options,
                                Clock::time_point deadline) {
  return checked(socket.receive(std::max(1, milliseconds_left(deadline))), wanted, options);
}

std::vector<std::byte> address_with(const RankNetwork& network, const Probe& probe) {
  const auto named = std::make_unique<RankAddress>(network.address());
  named->process = {::getpid(), reinterpret_cast<std::uintptr_t>(&probe.word),
                    probe.word.load(std::memory_order_relaxed)};
  return encoded(*named);
}

// Lets the service processes on the DPU connect, and then prove that they reach this rank without its help.
Status wire_up(EndpointParts& parts, const AttachOptions& options, Clock::time_point deadline) {
  Result<ControlMessage> offer = wait_for(ControlKind::segment_offer, parts.socket, options, deadline);
  if (!offer) return Error{offer.error()};
  Result<MappedSegment> segment = MappedSegment::map(offer.value().fds()[0], options.world_rank, options.world_size);
  if (!segment) return Error{segment.error()};
  parts.segment = std::move(segment).value();
  const SegmentView view = parts.segment.view();
  view.header().rank_base_address.store(reinterpret_cast<std::uintptr_t>(view.base()), std::memory_order_release);
  Result<std::unique_ptr<RankNetwork>> network = RankNetwork::open(view, options.transports, options.offer_exports);
  if (!network) return Error{network.error()};
  parts.network = std::move(network).value();
  const std::vector<std::byte> address = address_with(*parts.network, *parts.probe);
  const Result<UniqueFd> shared = share_bytes("outrigger-address", address);
  if (!shared) return Error{shared.error()};
  const int fd = shared.value().get();
  static_cast<void>(
      parts.socket.send(ControlKind::rank_address, SharedBytesBody{address.size(), 0, 0}, std::span(&fd, 1)));
  // Reads a refusal before it drives the network: the service processes end after it, and UCX 1.13 crashes if a
  // connection fails while it is being made.
  while (true) {
    ControlSocket::Received received = parts.socket.receive(1);
    if (received.event == ControlSocket::Event::nothing && Clock::now() < deadline) {
      parts.network->progress();
      continue;
    }
    const Result<ControlMessage> quiet = checked(std::move(received), ControlKind::be_quiet, options);
    if (!quiet) return Error{quiet.error()};
    view.header().rank_quiet.store(kRankQuiet, std::memory_order_seq_cst);
    return Done{};
  }
}

// A rank that continues without the DPU leaves its network open and idle: UCX 1.13 crashes if a connection is closed
// that is being made or has just failed.
Error without_dpu(EndpointParts& parts, const std::string& reason) {
  if (parts.network) parts.network->abandon();
  return Error{reason};
}

}  // namespace

void UnmapProbe::operator()(Probe* probe) const {
  ::munmap(probe, sizeof(Probe));
}

namespace {

Result<EndpointParts> join_keeper(const AttachOptions& options) {
  const Clock::time_point deadline = Clock::now() + patience_with_keeper(options);
  Result<UniqueFd> connected = connect_until(options.keeper, deadline);
  if (!connected) return Error{connected.error()};
  if (Status owner = check_owner(connected.value()); !owner) return Error{owner.error()};
#ifdef PR_SET_PTRACER
  // Lets service processes use cross-memory attach under Yama. Any process, as UCX does: a narrower setting would
  // affect the program's MPI. Fails without Yama, where it is not needed.
  static_cast<void>(::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0));
#endif
  EndpointParts parts;
  parts.socket = ControlSocket(std::move(connected).value());
  parts.world_rank = options.world_rank;
  parts.lending = Lending::Allowed{options.wait_copies, options.huge_pages, options.spare_cores};
  parts.probe = make_probe();
  if (!parts.probe) return Error{"no memory"};
  if (options.offer_xpmem) parts.xpmem = XpmemSegment::make();
  const HelloBody hello = make_hello(options, *parts.probe, parts.xpmem);
  // A keeper that rejects all ranks may have closed already; its reason can still be read.
  static_cast<void>(parts.socket.send(ControlKind::hello, hello));
  if (options.dpu) {
    if (Status wired = wire_up(parts, options, deadline); !wired) return without_dpu(parts, wired.error());
  }
  Result<ControlMessage> answer = wait_for(ControlKind::welcome, parts.socket, options, deadline);
  if (!answer) return without_dpu(parts, answer.error());
  parts.welcome = answer.value().body<WelcomeBody>();
  std::vector<UniqueFd>& fds = answer.value().fds();
  if (options.dpu) {
    if ((parts.welcome.reach & kReachRdma) == 0) return without_dpu(parts, "the DPU does not reach this rank's memory");
    return parts;
  }
  Result<MappedSegment> segment = MappedSegment::map(fds[0], options.world_rank, options.world_size);
  if (!segment) return Error{segment.error()};
  parts.segment = std::move(segment).value();
  parts.segment_fd = std::move(fds[0]);
  parts.doorbell = std::move(fds[1]);
  // The service processes changed this process's word if they reached its private memory.
  const bool reached = parts.probe->word.load(std::memory_order_acquire) != hello.probe_value;
  if (!reached) parts.welcome.reach &= ~(kReachCma | kReachXpmem);
  if ((parts.welcome.reach & kReachXpmem) == 0) parts.xpmem.reset();
  return parts;
}

}  // namespace

void EndEndpoint::operator()(RankEndpoint* endpoint) {
  endpoint->shut_down();
  kept.reset();
}

Result<AttachedEndpoint> attach(const AttachOptions& options) try {
  Result<EndpointParts> parts = join_keeper(options);
  if (!parts) return Error{parts.error()};
  auto endpoint = std::make_shared<RankEndpoint>(std::move(parts).value());
  RankEndpoint* const attached = endpoint.get();
  AttachedEndpoint handle(attached, EndEndpoint{std::move(endpoint)});
  watch_forks(*handle);
  return handle;
} catch (const std::exception& exception) {
  return Error{std::string("cannot attach to the keeper: ") + exception.what()};
}

}  // namespace outrigger::client
