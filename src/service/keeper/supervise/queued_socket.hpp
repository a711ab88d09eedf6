// A control socket whose messages wait, in order, while it is full: a process that waits for us to read must not be
// waited for.
#pragma once

#include <fcntl.h>

#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "protocol/wire/control.hpp"

namespace outrigger::service {

class QueuedSocket {
 public:
  QueuedSocket() = default;
  explicit QueuedSocket(UniqueFd fd) : socket_(std::move(fd)) {}

  [[nodiscard]] int fd() const { return socket_.fd(); }
  [[nodiscard]] bool open() const { return socket_.open(); }
  [[nodiscard]] ControlSocket::Received receive() { return socket_.receive(0); }
  // What waits is for nobody any more.
  void close() {
    socket_.close();
    waiting_.clear();
  }

  // The descriptors are duplicated if they have to wait.
  void send(std::vector<std::byte> packet, std::span<const int> fds) {
    if (waiting_.empty() && socket_.send_packet(packet, fds, 0)) return;
    Packet& queued = waiting_.emplace_back();
    queued.bytes = std::move(packet);
    for (const int fd : fds) queued.fds.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  }
  // To be called when the socket can be written to.
  void flush() {
    while (!waiting_.empty()) {
      std::vector<int> fds;
      for (const UniqueFd& fd : waiting_.front().fds) fds.push_back(fd.get());
      if (!socket_.send_packet(waiting_.front().bytes, fds, 0)) return;
      waiting_.pop_front();
    }
  }
  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }

 private:
  struct Packet {
    std::vector<std::byte> bytes;
    std::vector<UniqueFd> fds;
  };

  ControlSocket socket_;
  std::deque<Packet> waiting_;
};

}  // namespace outrigger::service
