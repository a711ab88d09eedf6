#include "protocol/wire/dpu_link.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace outrigger {
namespace {

constexpr std::chrono::seconds kSignOfLife{1};
// longer gaps between checks mean that this process stood still, as on a suspended machine
constexpr std::chrono::seconds kOwnPause{2};
constexpr std::size_t kReadBytes = 64U << 10;

int left_ms(DpuLink::Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - DpuLink::Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 60'000));
}

bool wait_for(int fd, short events, DpuLink::Clock::time_point deadline) {
  while (true) {
    pollfd awaited{fd, events, 0};
    const int ready = ::poll(&awaited, 1, left_ms(deadline));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

UniqueFd connect_to(const addrinfo& place, DpuLink::Clock::time_point deadline, int& error) {
  UniqueFd fd(::socket(place.ai_family, place.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, place.ai_protocol));
  if (fd.valid() && ::connect(fd.get(), place.ai_addr, place.ai_addrlen) == 0) return fd;
  error = errno;
  if (!fd.valid() || error != EINPROGRESS) return {};
  if (!wait_for(fd.get(), POLLOUT, deadline)) {
    error = ETIMEDOUT;
    return {};
  }
  socklen_t bytes = sizeof(error);
  (void)::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
  return error == 0 ? std::move(fd) : UniqueFd();
}

}  // namespace

DpuLink::DpuLink(UniqueFd socket)
    : socket_(std::move(socket)), heard_(Clock::now()), last_came_(heard_), spoke_(heard_), ticked_(heard_) {
  const int on = 1;
  (void)::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

Result<DpuLink> DpuLink::connect(const std::string& address, Clock::time_point deadline) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) return Error{"'" + address + "' is not HOST:PORT"};
  const std::string host = address.substr(0, colon);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found);
  if (status != 0) return Error{"the host " + host + " is unknown: " + ::gai_strerror(status)};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> places(found, &::freeaddrinfo);
  int error = 0;
  for (const addrinfo* place = found; place != nullptr; place = place->ai_next) {
    UniqueFd fd = connect_to(*place, deadline, error);
    if (fd.valid()) return DpuLink(std::move(fd));
  }
  return Error{std::string("no connection: ") + std::strerror(error)};
}

void DpuLink::fail(std::string problem) {
  if (problem_.empty()) problem_ = std::move(problem);
  socket_.reset();
}

void DpuLink::closed_by_other() {
  ended_by_other_ = true;
  fail("the connection was closed");
}

// A process that ends with bytes unread resets its connections, so this is what closing looks like then.
void DpuLink::broken(int error) {
  if (error == ECONNRESET || error == EPIPE) return closed_by_other();
  fail(std::string("the connection broke: ") + std::strerror(error));
}

void DpuLink::send(DpuFrameKind kind, std::uint32_t sp, std::span<const std::byte> packet,
                   std::span<const std::byte> attached) {
  if (!open()) return;
  append(outgoing_, DpuFrame{kind, sp, {packet.begin(), packet.end()}, {attached.begin(), attached.end()}});
  spoke_ = Clock::now();
  flush();
}

void DpuLink::flush() {
  while (open() && sent_ < outgoing_.size()) {
    const ssize_t sent = ::send(fd(), outgoing_.data() + sent_, outgoing_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      sent_ += static_cast<std::size_t>(sent);
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      return broken(errno);
    }
  }
  outgoing_.clear();
  sent_ = 0;
}

void DpuLink::work(Clock::time_point now) {
  flush();
  while (open()) {
    const std::size_t before = incoming_.size();
    incoming_.resize(before + kReadBytes);
    const ssize_t got = ::recv(fd(), incoming_.data() + before, kReadBytes, MSG_DONTWAIT);
    incoming_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got > 0) {
      heard_ = now;
      last_came_ = now;
    } else if (got == 0) {
      return closed_by_other();
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      return broken(errno);
    }
  }
}

std::optional<DpuFrame> DpuLink::next() {
  Result<std::optional<Parsed<DpuFrame>>> parsed = parse<DpuFrame>(std::span(incoming_).subspan(taken_));
  if (!parsed) {
    fail(parsed.error());
    incoming_.clear();
    taken_ = 0;
    return std::nullopt;
  }
  if (!parsed.value()) {
    incoming_.erase(incoming_.begin(), incoming_.begin() + static_cast<std::ptrdiff_t>(taken_));
    taken_ = 0;
    return std::nullopt;
  }
  taken_ += parsed.value()->bytes;
  return std::move(parsed.value()->message);
}

void DpuLink::tick(Clock::time_point now) {
  if (!open()) return;
  // If this process stood still, the other end may have, too.
  if (now - ticked_ > kOwnPause) heard_ = std::min(now, heard_ + (now - ticked_));
  ticked_ = now;
  if (now - spoke_ >= kSignOfLife) send(DpuFrameKind::alive, 0, {});
  if (now - heard_ >= silence_) fail("it does not answer");
}

}  // namespace outrigger
