#include "protocol/wire/control.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/no_cancellation.hpp"
#include "protocol/build_version.hpp"

namespace outrigger {
namespace {

struct Shape {
  std::size_t body_bytes;
  std::size_t fds;
};

std::optional<Shape> shape_of(ControlKind kind) {
  switch (kind) {
    case ControlKind::hello: return Shape{sizeof(HelloBody), 0};
    case ControlKind::welcome: return Shape{sizeof(WelcomeBody), 2};
    case ControlKind::refused: return Shape{sizeof(RefusedBody), 0};
    case ControlKind::region_add: return Shape{sizeof(RegionBody), 1};
    case ControlKind::region_added: return Shape{sizeof(RegionAddedBody), 0};
    case ControlKind::region_drop: return Shape{sizeof(RegionBody), 0};
    case ControlKind::goodbye: return Shape{sizeof(RankBody), 0};
    case ControlKind::configure: return Shape{sizeof(ConfigureBody), 0};
    case ControlKind::peer_moved: return Shape{sizeof(PeerMovedBody), 1};
    case ControlKind::peer_silent:
    case ControlKind::peer_watched: return Shape{sizeof(PeerBody), 0};
    case ControlKind::take_place: return Shape{sizeof(TakePlaceBody), 0};
    case ControlKind::introduced: return Shape{sizeof(IntroducedBody), 0};
    case ControlKind::core_share: return Shape{sizeof(CoreShareBody), 0};
    case ControlKind::peer_ring: return Shape{sizeof(PeerRingBody), 3};
    case ControlKind::rank_joined: return Shape{sizeof(RankJoinedBody), 2};
    case ControlKind::rank_attached: return Shape{sizeof(RankAttachedBody), 0};
    case ControlKind::rank_left: return Shape{sizeof(RankLeftBody), 0};
    case ControlKind::fault_report: return Shape{sizeof(FaultReportBody), 0};
    case ControlKind::wire_address:
    case ControlKind::node_descriptor:
    case ControlKind::job_map: return Shape{sizeof(SharedBytesBody), 1};
    case ControlKind::job_map_taken: return Shape{sizeof(JobMapTakenBody), 0};
    case ControlKind::segment_offer: return Shape{sizeof(RankBody), 1};
    case ControlKind::rank_address: return Shape{sizeof(SharedBytesBody), 1};
    case ControlKind::rank_remote: return Shape{sizeof(RankRemoteBody), 1};
    case ControlKind::rank_wired: return Shape{sizeof(RankWiredBody), 0};
    case ControlKind::leave_dpu: return Shape{sizeof(RankBody), 2};
    case ControlKind::left_dpu:
    case ControlKind::trace_settle:
    case ControlKind::be_quiet:
    case ControlKind::degraded: return Shape{sizeof(RankBody), 0};
    case ControlKind::doorbell:
    case ControlKind::heartbeat:
    case ControlKind::counts:
    case ControlKind::trace: return Shape{sizeof(RankBody), 1};
  }
  return std::nullopt;
}

constexpr std::size_t kMaxPacketBytes = 1024;
static_assert(sizeof(ControlHeader) + sizeof(HelloBody) <= kMaxPacketBytes);
static_assert(sizeof(ControlHeader) + sizeof(FaultReportBody) <= kMaxPacketBytes);

bool wait_for(int fd, short events, int timeout_ms) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  int left_ms = timeout_ms;
  while (true) {
    pollfd poll_fd{fd, events, 0};
    const int ready = ::poll(&poll_fd, 1, left_ms);
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
    // With a timer signal the wait would restart for ever.
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    left_ms = static_cast<int>(std::max<decltype(left)>(left, 0));
  }
}

// Called while the received descriptors are still open.
std::optional<std::string> no_descriptors_left() {
  const UniqueFd one_more(::eventfd(0, EFD_CLOEXEC));
  if (one_more.valid() || (errno != EMFILE && errno != ENFILE)) return std::nullopt;
  if (errno == ENFILE) return "no file descriptors left on this machine (fs.file-max)";
  rlimit limit{};
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  return "no file descriptors left (limit " + std::to_string(limit.rlim_cur) + "); raise ulimit -n";
}

std::vector<UniqueFd> take_fds(msghdr& message) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

Result<ControlMessage> decode_control(std::span<const std::byte> packet, std::vector<UniqueFd> fds) {
  std::span<const std::byte> body = packet;
  const std::optional<ControlHeader> taken = take_first<ControlHeader>(body);
  if (!taken) return Error{"control message too short"};
  const ControlHeader& header = *taken;
  if (header.magic != kControlMagic) return Error{"not an Outrigger control message"};
  if (header.version != build_version()) {
    return Error{other_build_text(header.version) + ": use the library and outriggerd of one installation"};
  }
  const auto kind = static_cast<ControlKind>(header.kind);
  const std::optional<Shape> shape = shape_of(kind);
  if (!shape) return Error{"control message of unknown kind " + std::to_string(header.kind)};
  if (header.body_bytes != shape->body_bytes || body.size() != shape->body_bytes) {
    return Error{"control message of kind " + std::to_string(header.kind) + " has the wrong size"};
  }
  if (fds.size() != shape->fds) {
    return Error{"control message of kind " + std::to_string(header.kind) + " has the wrong number of descriptors"};
  }
  ControlMessage message;
  message.kind_ = kind;
  message.body_.assign(body.begin(), body.end());
  message.fds_ = std::move(fds);
  return message;
}

std::vector<std::byte> encode_control(ControlKind kind, std::span<const std::byte> body) {
  std::vector<std::byte> packet = encoded(ControlHeader{.version = build_version(),
                                                        .kind = static_cast<std::uint32_t>(kind),
                                                        .body_bytes = static_cast<std::uint32_t>(body.size())});
  packet.insert(packet.end(), body.begin(), body.end());
  return packet;
}

bool ControlSocket::send_packet(std::span<const std::byte> packet, std::span<const int> fds, int timeout_ms) {
  const NoCancellation whole;  // the caller holds locks
  if (!fd_.valid() || fds.size() > kMaxControlFds) return false;
  iovec data{const_cast<std::byte*>(packet.data()), packet.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int) * kMaxControlFds)> rights{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = rights.data();
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(part), fds.data(), sizeof(int) * fds.size());
  }
  while (true) {
    const ssize_t sent = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return static_cast<std::size_t>(sent) == packet.size();
    if (errno == EINTR) continue;
    if (errno != EAGAIN || !wait_for(fd_.get(), POLLOUT, timeout_ms)) return false;
  }
}

ControlSocket::Received ControlSocket::receive(int timeout_ms) {
  const NoCancellation whole;
  Received received;
  if (!fd_.valid()) {
    received.event = Event::closed;
    return received;
  }
  if (timeout_ms > 0 && !wait_for(fd_.get(), POLLIN, timeout_ms)) return received;
  std::array<std::byte, kMaxPacketBytes> packet{};
  // Room for more descriptors than any message has, so too many are detected and not cut off.
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int) * (kMaxControlFds + 1))> rights{};
  iovec data{packet.data(), packet.size()};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = rights.data();
  message.msg_controllen = rights.size();
  ssize_t bytes = 0;
  do {
    bytes = ::recvmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (bytes < 0 && errno == EINTR);
  if (bytes < 0) {
    received.event = errno == EAGAIN ? Event::nothing : Event::closed;
    return received;
  }
  std::vector<UniqueFd> fds = take_fds(message);
  if (bytes == 0) {
    received.event = Event::closed;
    return received;
  }
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    received.event = Event::malformed;
    // The kernel drops descriptors if this process has no room; that is not the sender's fault.
    const bool too_many = (message.msg_flags & MSG_TRUNC) != 0 || fds.size() > kMaxControlFds;
    const std::optional<std::string> full = too_many ? std::nullopt : no_descriptors_left();
    if (full) received.event = Event::no_descriptors;
    received.problem = full.value_or("control message too long or with too many descriptors");
    return received;
  }
  Result<ControlMessage> decoded =
      decode_control(std::span<const std::byte>(packet.data(), static_cast<std::size_t>(bytes)), std::move(fds));
  if (!decoded) {
    received.event = Event::malformed;
    received.problem = decoded.error();
    return received;
  }
  received.event = Event::message;
  received.message = std::move(decoded).value();
  return received;
}

}  // namespace outrigger
