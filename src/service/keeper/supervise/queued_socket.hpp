// A control socket that queues messages while it is full. The keeper never blocks on a process that may be waiting for
// the keeper.
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
  // Drops queued messages.
  void close() {
    socket_.close();
    waiting_.clear();
  }

  // Duplicates the descriptors if the message is queued.
  void send(std::vector<std::byte> packet, std::span<const int> fds) {
    if (waiting_.empty() && socket_.send_packet(packet, fds, 0)) return;
    Packet& queued = waiting_.emplace_back();
    queued.bytes = std::move(packet);
    for (const int fd : fds) queued.fds.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  }
  // To be called when the socket is writable.
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
