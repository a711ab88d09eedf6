#include "group/nodes/socket_stream.hpp"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

namespace outrigger::group {
namespace {

using namespace std::chrono_literals;

// Limits of one system call.
constexpr std::size_t kMostBytes = std::size_t{1} << 28;
constexpr auto kLinger = 2s;

template <class Byte>
iovec piece(std::span<Byte> bytes) {
  return {.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = std::min(bytes.size(), kMostBytes)};
}

bool is_for_now(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

}  // namespace

// A socket that is closed with unread bytes drops those that it has not sent.
SocketStream::~SocketStream() {
  std::array<std::byte, 4096> unread;
  const auto end = std::chrono::steady_clock::now() + kLinger;
  int unsent = 0;
  (void)::shutdown(socket_.get(), SHUT_WR);
  while (!closed_ && ::ioctl(socket_.get(), SIOCOUTQ, &unsent) == 0 && unsent > 0 &&
         std::chrono::steady_clock::now() < end) {
    if (read(unread, {}) > 0) continue;
    pollfd readable{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    (void)::poll(&readable, 1, 1);
  }
  while (!closed_ && std::chrono::steady_clock::now() < end && read(unread, {}) > 0) {
  }
}

std::size_t SocketStream::write(std::span<const std::byte> head, std::span<const std::byte> body) {
  if (is_broken() || head.size() + body.size() == 0) return 0;
  std::array<iovec, 2> pieces{piece(head), piece(body)};
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  // After an error there may still be bytes to read, so only read() closes. Each broken connection tells EPIPE in the
  // end.
  const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) broken_ = true;
  return sent > 0 ? static_cast<std::size_t>(sent) : 0;
}

std::size_t SocketStream::read(std::span<std::byte> head, std::span<std::byte> body) {
  if (closed_ || head.size() + body.size() == 0) return 0;
  std::array<iovec, 2> pieces{piece(head), piece(body)};
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  const ssize_t received = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT);
  if (received > 0) return static_cast<std::size_t>(received);
  if (received == 0 || !is_for_now(errno)) closed_ = true;
  return 0;
}

}  // namespace outrigger::group
