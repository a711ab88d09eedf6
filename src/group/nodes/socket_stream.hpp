// A stream between two members of different nodes: a TCP connection.
#pragma once

#include <utility>

#include "group/nodes/fork_guard.hpp"
#include "group/stream.hpp"

namespace outrigger::group {

class SocketStream final : public Stream {
 public:
  // `socket` is connected and nonblocking.
  explicit SocketStream(GuardedFd socket) : socket_(std::move(socket)) {}
  // Waits a little until the other node has all bytes, unless the stream is closed.
  ~SocketStream() override;

  [[nodiscard]] std::size_t write(std::span<const std::byte> head, std::span<const std::byte> body) override;
  [[nodiscard]] std::size_t read(std::span<std::byte> head, std::span<std::byte> body) override;
  void abandon() override { closed_ = true; }
  [[nodiscard]] bool is_closed() const override { return closed_; }
  [[nodiscard]] bool is_broken() const override { return broken_ || closed_; }
  [[nodiscard]] int descriptor() const override { return socket_.get(); }

 private:
  GuardedFd socket_;
  bool closed_ = false;
  bool broken_ = false;  // of writes
};

}  // namespace outrigger::group
